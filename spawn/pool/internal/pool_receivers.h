// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// From the answers of a pool's workers to futures; used by process_pool.h.

#ifndef TENON_SPAWN_POOL_INTERNAL_POOL_RECEIVERS_H_
#define TENON_SPAWN_POOL_INTERNAL_POOL_RECEIVERS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/futures/future.h"
#include "tenon/futures/wait_helper.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/pool/internal/pool_dispatcher.h"
#include "tenon/spawn/pool/internal/pool_task.h"

namespace tenon::spawn::internal_pool {

// A result of type T; std::monostate for void.
template <typename T>
using Held = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <typename T>
absl::StatusOr<T> UnpackValue(PackedArguments answer) {
  ArgumentReader reader(answer.bytes, std::move(answer.fds),
                        std::move(answer.tensors));
  absl::StatusOr<T> value = ArgumentTraits<T>::Unpack(reader);
  if (!value.ok()) return value;
  const absl::Status whole = reader.Finish();
  if (!whole.ok()) return whole;
  return value;
}

// An exception from a user's type becomes an error: usually no user code that
// could catch it is on this thread's stack.
template <typename T>
absl::StatusOr<Held<T>> UnpackResult(absl::StatusOr<PackedArguments> answer) {
  if (!answer.ok()) return std::move(answer).status();
  if constexpr (std::is_void_v<T>) {
    return std::monostate();
  } else {
    try {
      return UnpackValue<T>(*std::move(answer));
    } catch (const std::exception& e) {
      return absl::InternalError(
          absl::StrCat("cannot unpack the result: ", e.what()));
    } catch (...) {
      return absl::InternalError(
          "cannot unpack the result: it threw an object that is not a "
          "std::exception");
    }
  }
}

// A thread that waits for the result of one call leads its worker.
class TaskWaiter final : public futures::internal_future::WaitHelper {
 public:
  TaskWaiter(std::weak_ptr<PoolDispatcher> pool, uint64_t task_id)
      : pool_(std::move(pool)), task_id_(task_id) {}

  void Help(std::chrono::steady_clock::time_point deadline) override {
    const std::shared_ptr<PoolDispatcher> pool = pool_.lock();
    if (pool != nullptr) pool->Lead(task_id_, deadline);
  }

 private:
  std::weak_ptr<PoolDispatcher> pool_;
  uint64_t task_id_;
};

// A cancel request is passed on to the tasks of `task_id`.
template <typename T>
void PassCancelOn(futures::Promise<T>& promise,
                  std::weak_ptr<PoolDispatcher> pool, uint64_t task_id) {
  promise.OnCancelRequest([pool = std::move(pool), task_id] {
    const std::shared_ptr<PoolDispatcher> core = pool.lock();
    if (core != nullptr) core->Cancel(task_id);
  });
}

template <typename T>
class PromiseReceiver final : public PoolReceiver {
 public:
  PromiseReceiver(const std::weak_ptr<PoolDispatcher>& pool, uint64_t task_id) {
    futures::internal_future::SetWaitHelper(
        promise_, std::make_shared<TaskWaiter>(pool, task_id));
    PassCancelOn(promise_, pool, task_id);
  }

  futures::Future<T> future() { return promise_.future(); }

  void Receive(absl::StatusOr<PackedArguments> answer) override {
    absl::StatusOr<Held<T>> result = UnpackResult<T>(std::move(answer));
    if (!result.ok()) {
      promise_.TrySetError(std::move(result).status());
    } else if constexpr (std::is_void_v<T>) {
      promise_.TrySetValue();
    } else {
      promise_.TrySetValue(*std::move(result));
    }
  }

 private:
  futures::Promise<T> promise_;
};

// Collects the results of a Map().
template <typename T>
class MapState {
 public:
  // std::vector<T>; void for void.
  using Whole =
      std::conditional_t<std::is_void_v<T>, void, std::vector<Held<T>>>;

  MapState(size_t count, std::weak_ptr<PoolDispatcher> pool, uint64_t task_id)
      : results_(count), left_(count) {
    if (count == 0) Complete();
    PassCancelOn(promise_, std::move(pool), task_id);
  }

  futures::Future<Whole> future() { return promise_.future(); }

  void Set(size_t i, absl::StatusOr<Held<T>> result) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (result.ok()) {
        results_[i] = *std::move(result);
      } else if (i < first_error_) {
        first_error_ = i;
        error_ = std::move(result).status();
      }
      if (--left_ > 0) return;
    }
    Complete();
  }

 private:
  void Complete() {
    if (!error_.ok()) {
      promise_.TrySetError(std::move(error_));
    } else if constexpr (std::is_void_v<T>) {
      promise_.TrySetValue();
    } else {
      std::vector<T> whole;
      whole.reserve(results_.size());
      for (std::optional<T>& result : results_) {
        whole.push_back(*std::move(result));
      }
      promise_.TrySetValue(std::move(whole));
    }
  }

  std::mutex mutex_;
  std::vector<std::optional<Held<T>>> results_;
  size_t left_;
  size_t first_error_ = static_cast<size_t>(-1);
  absl::Status error_;
  futures::Promise<Whole> promise_;
};

template <typename T>
class MapReceiver final : public PoolReceiver {
 public:
  MapReceiver(std::shared_ptr<MapState<T>> map, size_t i)
      : map_(std::move(map)), i_(i) {}

  void Receive(absl::StatusOr<PackedArguments> answer) override {
    map_->Set(i_, UnpackResult<T>(std::move(answer)));
  }

 private:
  std::shared_ptr<MapState<T>> map_;
  size_t i_;
};

}  // namespace tenon::spawn::internal_pool

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_RECEIVERS_H_
