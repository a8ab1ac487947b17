// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The callbacks of Then and AddDoneCallback. Internal to future.h.
//
//   a callback's return type        Then's return type
//   void, absl::Status               Future<void>
//   absl::StatusOr<U>, Future<U>, U  Future<U>

#ifndef TENON_FUTURES_INTERNAL_FUTURE_CALLBACK_H_
#define TENON_FUTURES_INTERNAL_FUTURE_CALLBACK_H_

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/futures/callback_failure.h"
#include "tenon/futures/internal/cancel_request.h"
#include "tenon/futures/internal/future_state.h"

namespace tenon::futures {

template <typename T>
class Future;
template <typename T>
class Promise;

namespace internal_future {

// Access to the internals of futures and promises for the headers of this
// package.
struct Access {
  template <typename T>
  static std::shared_ptr<State<T>>& StateOf(Future<T>& future) {
    return future.state_;
  }
  template <typename T>
  static const std::shared_ptr<State<T>>& StateOf(const Future<T>& future) {
    return future.state_;
  }
  template <typename T>
  static const std::shared_ptr<State<T>>& StateOf(const Promise<T>& promise) {
    return promise.state_;
  }
  template <typename T>
  static Future<T> FutureOf(std::shared_ptr<State<T>> state) {
    return Future<T>(std::move(state));
  }
};

// A state that has failed with the error of an empty future.
template <typename T>
std::shared_ptr<State<T>> StateOfEmptyFuture() {
  auto state = std::make_shared<State<T>>();
  Complete(state, EmptyFutureError());
  return state;
}

// `state`, or an empty future's.
template <typename T>
std::shared_ptr<State<T>> StateOrEmpty(std::shared_ptr<State<T>> state) {
  return state != nullptr ? std::move(state) : StateOfEmptyFuture<T>();
}

// For a callback that returns R: the T of the future that Then returns, and a
// holder of the return value until it is passed on.
template <typename R>
struct Returned {
  using Value = R;
  using Holder = absl::StatusOr<R>;
  static constexpr bool kIsFuture = false;
};
template <>
struct Returned<void> {
  using Value = void;
  using Holder = absl::Status;
  static constexpr bool kIsFuture = false;
};
template <>
struct Returned<absl::Status> : Returned<void> {};
template <typename U>
struct Returned<absl::StatusOr<U>> : Returned<U> {};
template <typename U>
struct Returned<Future<U>> {
  using Value = U;
  using Holder = Future<U>;
  static constexpr bool kIsFuture = true;
};

// Passes the result of the future that a callback returned on to `child`.
template <typename U>
class ForwardCallback final : public Callback {
 public:
  explicit ForwardCallback(std::shared_ptr<State<U>> child)
      : child_(std::move(child)) {}

  void Run(StateBase& source) noexcept override {
    // May be the last reference: keeps `source` alive to the end of this
    // function.
    const auto link = child_->StopPassingCancelOn();
    Complete(std::move(child_),
             std::move(static_cast<State<U>&>(source).result));
  }

 private:
  std::shared_ptr<State<U>> child_;
};

template <typename U>
void Forward(std::shared_ptr<State<U>> from, std::shared_ptr<State<U>> child) {
  if (from == nullptr) {
    Complete(std::move(child), EmptyFutureError());
  } else if (from == child) {
    Complete(std::move(child), OwnFutureError());
  } else {
    State<U>& source = *from;
    auto callback = std::make_unique<ForwardCallback<U>>(child);
    child->PassCancelOnTo(std::move(from));
    source.Attach(std::move(callback), StateBase::Order::kInOrder);
  }
}

// A callback of Then that takes Argument, and the future of its result. Single
// use.
template <typename Argument, typename F>
class ThenCall {
 public:
  using R = std::remove_cvref_t<std::invoke_result_t<F, Argument>>;
  using U = typename Returned<R>::Value;
  using Holder = typename Returned<R>::Holder;

  ThenCall(F fn, std::shared_ptr<State<U>> child)
      : fn_(std::move(fn)), child_(std::move(child)) {}

  // Calls it and completes the child with the result.
  void Run(Argument result) noexcept {
    Holder returned;
    const absl::Status caught = CatchExceptions([this, &result, &returned] {
      Call(static_cast<Argument>(result), returned);
    });
    // Before the child completes: its waiter may then destroy the objects that
    // the callback refers to.
    fn_.reset();
    if (!caught.ok()) {
      Complete(std::move(child_), caught);
    } else if constexpr (Returned<R>::kIsFuture) {
      Forward(std::move(Access::StateOf(returned)), std::move(child_));
    } else {
      Complete(std::move(child_), std::move(returned));
    }
  }

  // For a child linked to its source: requests are no longer forwarded.
  std::shared_ptr<CancelRequest> Unlink() {
    return child_->StopPassingCancelOn();
  }

  // Completes the child without a call; does nothing after Run, or if moved
  // from.
  void Abort(absl::Status error) noexcept {
    if (child_ == nullptr) return;
    fn_.reset();
    Complete(std::move(child_), std::move(error));
  }

 private:
  void Call(Argument result, Holder& returned) {
    if constexpr (std::is_void_v<R>) {
      std::invoke(*std::move(fn_), static_cast<Argument>(result));
    } else if constexpr (std::is_same_v<R, Holder>) {
      returned = std::invoke(*std::move(fn_), static_cast<Argument>(result));
    } else {
      returned.emplace(
          std::invoke(*std::move(fn_), static_cast<Argument>(result)));
    }
  }

  std::optional<F> fn_;
  std::shared_ptr<State<U>> child_;
};

template <typename T, typename Argument, typename F>
class ThenCallback final : public Callback {
 public:
  using U = typename ThenCall<Argument, F>::U;

  ThenCallback(F fn, std::shared_ptr<State<U>> child)
      : call_(std::move(fn), std::move(child)) {}

  void Run(StateBase& source) noexcept override {
    std::shared_ptr<CancelRequest> link;
    // May be the last reference: keeps `source` alive to the end of this
    // function.
    if constexpr (std::is_rvalue_reference_v<Argument>) link = call_.Unlink();
    call_.Run(static_cast<Argument>(static_cast<State<T>&>(source).result));
  }

 private:
  ThenCall<Argument, F> call_;
};

// Calls a callback of AddDoneCallback, whose error no future carries.
template <typename Argument, typename F>
void CallDone(F fn, Argument result) noexcept {
  absl::Status error;
  error.Update(CatchExceptions([&] {
    if constexpr (std::is_void_v<std::invoke_result_t<F, Argument>>) {
      std::invoke(std::forward<F>(fn), static_cast<Argument>(result));
    } else {
      error = std::invoke(std::forward<F>(fn), static_cast<Argument>(result));
    }
  }));
  if (!error.ok()) ReportCallbackFailure(error);
}

template <typename T, typename F>
class DoneCallback final : public Callback {
 public:
  explicit DoneCallback(F fn) : fn_(std::move(fn)) {}

  void Run(StateBase& source) noexcept override {
    CallDone<const Result<T>&, F&>(fn_, static_cast<State<T>&>(source).result);
  }

 private:
  F fn_;
};

}  // namespace internal_future
}  // namespace tenon::futures

#endif  // TENON_FUTURES_INTERNAL_FUTURE_CALLBACK_H_
