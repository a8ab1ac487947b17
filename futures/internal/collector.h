// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Common implementation of CollectAll, CollectAllSettled and CollectAny: detail
// of collect.h.

#ifndef TENON_FUTURES_INTERNAL_COLLECTOR_H_
#define TENON_FUTURES_INTERNAL_COLLECTOR_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/futures/future.h"
#include "tenon/futures/internal/cancel_request.h"
#include "tenon/futures/internal/future_callback.h"
#include "tenon/futures/internal/future_state.h"

namespace tenon::futures {

template <typename T>
struct FirstDone;

namespace internal_future {

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// Collects futures of Goal::Member into one of Goal::Output. One allocation for
// the callbacks of all; the futures' own states hold the results meanwhile.
//
// It owns itself until each of its callbacks has been disposed of; the last
// callback finds every result complete and unshared, as each future was taken
// over.
template <typename Goal>
class Collector {
 public:
  using T = typename Goal::Member;
  using Output = typename Goal::Output;

  static Future<Output> Collect(std::vector<Future<T>> futures) {
    const auto collector = std::make_shared<Collector>(std::move(futures));
    const std::shared_ptr<State<Output>> child = collector->child_;
    collector->Start(collector);
    return Access::FutureOf(child);
  }

  explicit Collector(std::vector<Future<T>> futures)
      : futures_(std::move(futures)),
        callbacks_(std::make_unique<OneDone[]>(futures_.size())),
        pending_(futures_.size()) {}

 private:
  class OneDone final : public Callback {
   public:
    void Run(StateBase& source) noexcept override {
      Goal::OnDone(static_cast<size_t>(this - collector->callbacks_.get()),
                   static_cast<State<T>&>(source).result, collector->child_);
    }
    void Dispose() noexcept override {
      if (collector->pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        collector->Finish();
      }
    }
    Collector* collector = nullptr;
  };

  // The caller keeps this alive during the call.
  void Start(const std::shared_ptr<Collector>& self) {
    self_ = self;
    auto ask_all = [weak = std::weak_ptr<Collector>(self)] {
      if (const auto collector = weak.lock()) collector->RequestCancel();
    };
    child_->AddCancelCallback(
        std::make_unique<CancelCallbackOf<decltype(ask_all)>>(
            std::move(ask_all)));
    for (size_t i = 0; i < futures_.size(); ++i) {
      std::shared_ptr<State<T>>& state = Access::StateOf(futures_[i]);
      if (state == nullptr) state = StateOfEmptyFuture<T>();
    }
    for (size_t i = 0; i < futures_.size(); ++i) {
      callbacks_[i].collector = this;
      Access::StateOf(futures_[i])
          ->Attach(CallbackPtr(&callbacks_[i]), StateBase::Order::kInOrder);
    }
  }

  void RequestCancel() const {
    for (const Future<T>& future : futures_) future.RequestCancel();
  }

  void Finish() {
    const std::shared_ptr<Collector> self = std::move(self_);
    if (!child_->IsReady()) Goal::OnAllDone(futures_, child_);
  }

  std::vector<Future<T>> futures_;  // Unchanged after Start.
  std::unique_ptr<OneDone[]> callbacks_;
  std::atomic<size_t> pending_;
  const std::shared_ptr<State<Output>> child_ =
      std::make_shared<State<Output>>();
  std::shared_ptr<Collector> self_;
};

template <typename T>
struct AllOf {
  using Type = std::vector<T>;
};
template <>
struct AllOf<void> {
  using Type = void;
};

template <typename T>
struct GoalAll {
  using Member = T;
  using Output = typename AllOf<T>::Type;

  static void OnDone(size_t /*index*/, const Result<T>& result,
                     const std::shared_ptr<State<Output>>& child) {
    if (!result.ok()) Complete(child, StatusOf(result));
  }

  static void OnAllDone(std::vector<Future<T>>& futures,
                        const std::shared_ptr<State<Output>>& child) {
    if constexpr (std::is_void_v<T>) {
      Complete(child, absl::OkStatus());  // Errors have already done so.
    } else {
      Output values;
      values.reserve(futures.size());
      for (Future<T>& future : futures) {
        Result<T>& result = Access::StateOf(future)->result;
        if (!result.ok()) return;  // Another thread is completing it.
        values.push_back(*std::move(result));
      }
      Complete(child, std::move(values));
    }
  }
};

template <typename T>
struct GoalAllSettled {
  using Member = T;
  using Output = std::vector<Result<T>>;

  static void OnDone(size_t /*index*/, const Result<T>& /*result*/,
                     const std::shared_ptr<State<Output>>& /*child*/) {}

  static void OnAllDone(std::vector<Future<T>>& futures,
                        const std::shared_ptr<State<Output>>& child) {
    Output results;
    results.reserve(futures.size());
    for (Future<T>& future : futures) {
      results.push_back(std::move(Access::StateOf(future)->result));
    }
    Complete(child, std::move(results));
  }
};

template <typename T>
struct GoalAny {
  using Member = T;
  using Output = FirstDone<T>;

  static void OnDone(size_t index, Result<T>& result,
                     const std::shared_ptr<State<Output>>& child) {
    if (child->IsReady()) return;
    Complete(child, Output{index, std::move(result)});
  }

  static void OnAllDone(std::vector<Future<T>>& /*futures*/,
                        const std::shared_ptr<State<Output>>& /*child*/) {}
};

}  // namespace internal_future
}  // namespace tenon::futures

#endif  // TENON_FUTURES_INTERNAL_COLLECTOR_H_
