// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The callbacks of Then and AddDoneCallback: detail of future.h, for nobody
// else.
//
//   what a callback returns          what Then returns
//   void, absl::Status               Future<void>
//   absl::StatusOr<U>, Future<U>, U  Future<U>

#ifndef TENON_FUTURES_FUTURE_CALLBACK_H_
#define TENON_FUTURES_FUTURE_CALLBACK_H_

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/futures/future_state.h"

namespace tenon::futures {

template <typename T>
class Future;

namespace internal_future {

// For a callback that returns R: the T of the future that Then returns, and
// what holds the returned thing until it is passed on.
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
    from->Attach(std::make_unique<ForwardCallback<U>>(std::move(child)),
                 StateBase::Order::kInOrder);
  }
}

// Calls `fn` with the result of a Future<T>, as Argument, and completes `child`
// with what it returns.
template <typename T, typename Argument, typename F>
class ThenCallback final : public Callback {
 public:
  using R = std::remove_cvref_t<std::invoke_result_t<F, Argument>>;
  using U = typename Returned<R>::Value;
  using Holder = typename Returned<R>::Holder;

  ThenCallback(F fn, std::shared_ptr<State<U>> child)
      : fn_(std::move(fn)), child_(std::move(child)) {}

  void Run(StateBase& source) noexcept override {
    Holder returned;
    const absl::Status caught = CatchExceptions([this, &source, &returned] {
      Call(static_cast<Argument>(static_cast<State<T>&>(source).result),
           returned);
    });
    // Before anybody can see the child complete: who waits for it may go on to
    // destroy what the callback refers to.
    fn_.reset();
    if (!caught.ok()) {
      Complete(std::move(child_), caught);
    } else if constexpr (Returned<R>::kIsFuture) {
      Forward(std::move(returned.state_), std::move(child_));
    } else {
      Complete(std::move(child_), std::move(returned));
    }
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

template <typename T, typename F>
class DoneCallback final : public Callback {
 public:
  explicit DoneCallback(F fn) : fn_(std::move(fn)) {}

  void Run(StateBase& source) noexcept override {
    // There is no future that could carry the exception.
    CatchExceptions([this, &source] {
      std::invoke(std::move(fn_),
                  std::as_const(static_cast<State<T>&>(source).result));
    }).IgnoreError();
  }

 private:
  F fn_;
};

}  // namespace internal_future
}  // namespace tenon::futures

#endif  // TENON_FUTURES_FUTURE_CALLBACK_H_
