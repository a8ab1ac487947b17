// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The templates of process_pool.h; include that.

#ifndef TENON_SPAWN_POOL_PROCESS_POOL_DEFINITIONS_H_
#define TENON_SPAWN_POOL_PROCESS_POOL_DEFINITIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/futures/future.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_receiver.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/pool/result_stream.h"

namespace tenon::spawn {
namespace internal_pool {

// For a thread that waits for the result of one call: it leads its worker.
std::shared_ptr<futures::internal_future::WaitHelper> LeaderOf(
    std::weak_ptr<PoolDispatcher> pool, uint64_t task_id);

void CancelTask(const std::weak_ptr<PoolDispatcher>& pool, uint64_t task_id);

// A cancel request is passed on to the tasks of `task_id`.
template <typename T>
void PassCancelOn(futures::Promise<T>& promise,
                  std::weak_ptr<PoolDispatcher> pool, uint64_t task_id) {
  promise.OnCancelRequest(
      [pool = std::move(pool), task_id] { CancelTask(pool, task_id); });
}

template <typename T>
class PromiseReceiver final : public PoolReceiver {
 public:
  PromiseReceiver(const std::weak_ptr<PoolDispatcher>& pool, uint64_t task_id) {
    futures::internal_future::SetWaitHelper(promise_, LeaderOf(pool, task_id));
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
    if (count == 0) Complete({}, absl::OkStatus());
    PassCancelOn(promise_, std::move(pool), task_id);
  }

  futures::Future<Whole> future() { return promise_.future(); }

  void Set(size_t i, absl::StatusOr<Held<T>> result) {
    Results results;
    absl::Status error;
    {
      const ThreadLock lock(&mutex_);
      if (result.ok()) {
        results_[i] = *std::move(result);
      } else if (i < first_error_) {
        first_error_ = i;
        error_ = std::move(result).status();
      }
      if (--left_ > 0) return;
      results = std::move(results_);
      error = std::move(error_);
    }
    Complete(std::move(results), std::move(error));
  }

 private:
  using Results = std::vector<std::optional<Held<T>>>;

  void Complete(Results results, absl::Status error) {
    if (!error.ok()) {
      promise_.TrySetError(std::move(error));
    } else if constexpr (std::is_void_v<T>) {
      promise_.TrySetValue();
    } else {
      std::vector<T> whole;
      whole.reserve(results.size());
      for (std::optional<T>& result : results) {
        whole.push_back(*std::move(result));
      }
      promise_.TrySetValue(std::move(whole));
    }
  }

  ThreadMutex mutex_;
  Results results_ ABSL_GUARDED_BY(mutex_);
  size_t left_ ABSL_GUARDED_BY(mutex_);
  size_t first_error_ ABSL_GUARDED_BY(mutex_) = static_cast<size_t>(-1);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
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
  std::optional<size_t> input() const override { return i_; }

 private:
  std::shared_ptr<MapState<T>> map_;
  size_t i_;
};

}  // namespace internal_pool

template <typename T>
futures::Future<T> ProcessPool::Call(
    const TaskOptions& options, absl::StatusOr<std::string> function,
    absl::StatusOr<PackedArguments> arguments) const {
  const uint64_t id = NewTaskId();
  auto receiver =
      std::make_unique<internal_pool::PromiseReceiver<T>>(core_, id);
  futures::Future<T> future = receiver->future();
  SubmitOne(id, options, std::move(function), std::move(arguments),
            std::move(receiver));
  return future;
}

template <typename R, typename P>
auto ProcessPool::Map(R (*function)(P),
                      const std::vector<std::decay_t<P>>& inputs,
                      const MapOptions& options) const {
  using Result = typename internal_pool::ResultOf<R>::Type;
  const uint64_t id = NewTaskId();
  auto map = std::make_shared<internal_pool::MapState<Result>>(inputs.size(),
                                                               core_, id);
  auto future = map->future();
  SubmitChunks(
      id, options, NameOfPooled(reinterpret_cast<void (*)()>(function)),
      inputs.size(),
      [&](size_t i) { return PackCall<std::decay_t<P>>(inputs[i]); },
      [&](size_t i) {
        return std::make_unique<internal_pool::MapReceiver<Result>>(map, i);
      });
  return future;
}

template <typename R, typename P>
ResultStream<typename internal_pool::ResultOf<R>::Type> ProcessPool::Stream(
    R (*function)(P), InputGenerator<std::decay_t<P>> next,
    const StreamOptions& options) const {
  using Result = typename internal_pool::ResultOf<R>::Type;
  return ResultStream<Result>(
      core_, NameOfPooled(reinterpret_cast<void (*)()>(function)),
      [next = std::move(
           next)]() mutable -> absl::StatusOr<std::optional<PackedArguments>> {
        absl::StatusOr<std::optional<std::decay_t<P>>> input = next();
        if (!input.ok()) return input.status();
        if (!input->has_value()) return std::optional<PackedArguments>();
        absl::StatusOr<PackedArguments> call =
            PackCall<std::decay_t<P>>(**std::move(input));
        if (!call.ok()) return call.status();
        return std::optional<PackedArguments>(*std::move(call));
      },
      options);
}

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_PROCESS_POOL_DEFINITIONS_H_
