// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The definitions of future.h, the only file that includes this.

#ifndef TENON_FUTURES_FUTURE_DEFINITIONS_H_
#define TENON_FUTURES_FUTURE_DEFINITIONS_H_

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"
#include "tenon/futures/internal/cancel_request.h"
#include "tenon/futures/internal/executor_callback.h"
#include "tenon/futures/internal/future_callback.h"
#include "tenon/futures/internal/future_state.h"

namespace tenon::futures {
namespace internal_future {

// A Result with static lifetime, for a value() that has no other to refer to.
template <typename T, absl::Status (*MakeError)()>
const Result<T>& LastingError() {
  static const auto* const error = new Result<T>(MakeError());
  return *error;
}

// How a callback is attached to a State<T>, and how its argument is passed.
template <typename T>
struct OnLvalue {
  using Pointer = const std::shared_ptr<State<T>>&;
  using Argument = const Result<T>&;
  static constexpr auto kOrder = StateBase::Order::kAtOnce;
  static void Link(Pointer /*state*/, CancelRequest& /*child*/) {}
};
template <typename T>
struct OnRvalue {
  using Pointer = std::shared_ptr<State<T>>;
  using Argument = Result<T>&&;
  static constexpr auto kOrder = StateBase::Order::kInOrder;
  // From here on no other thread can cancel `state`.
  static void Link(Pointer& state, CancelRequest& child) {
    child.StartPassingCancelOnTo(std::move(state));
  }
};

template <typename T, typename Argument, typename F>
constexpr void CheckThen() {
  static_assert(std::is_invocable_v<F, Argument>,
                "the callback of Then takes absl::StatusOr<T>, or absl::Status "
                "if T is void; an lvalue future passes it as a "
                "const reference");
}

// Attaches `callback` and returns the future of its result.
template <typename T, typename How, typename F>
auto AttachThen(typename How::Pointer state, F&& callback) {
  using Fn = std::decay_t<F>;
  CheckThen<T, typename How::Argument, Fn>();
  using Attached = ThenCallback<T, typename How::Argument, Fn>;
  auto child = std::make_shared<State<typename Attached::U>>();
  State<T>& source = *state;  // Kept alive, at least by the link.
  child->ShareWaitHelperOf(source);
  auto attached = std::make_unique<Attached>(std::forward<F>(callback), child);
  if constexpr (How::kOrder == StateBase::Order::kAtOnce) {
    StateBase::AttachTo(state, std::move(attached), How::kOrder);
  } else {
    How::Link(state, *child);
    source.Attach(std::move(attached), How::kOrder);
  }
  return Access::FutureOf(std::move(child));
}

// Attaches `call`, to be handed to `executor` with the result.
template <typename T, typename How, typename Call>
void AttachSubmit(State<T>& state, Executor& executor, Call call) {
  static_assert(
      std::is_rvalue_reference_v<typename How::Argument> || std::is_void_v<T> ||
          std::is_copy_constructible_v<T>,
      "a callback on an executor takes the result with it: a copy, unless the "
      "future is a temporary, or std::move(future).Then(executor, callback)");
  using Attached = SubmitCallback<T, typename How::Argument, Call>;
  state.Attach(std::make_unique<Attached>(executor, std::move(call)),
               How::kOrder);
}

template <typename T, typename How, typename F>
auto AttachThenOn(typename How::Pointer state, Executor& executor,
                  F&& callback) {
  using Fn = std::decay_t<F>;
  CheckThen<T, Result<T>&&, Fn>();
  using Call = ThenCall<Result<T>&&, Fn>;
  auto child = std::make_shared<State<typename Call::U>>();
  State<T>& source = *state;
  child->ShareWaitHelperOf(source);
  How::Link(state, *child);
  AttachSubmit<T, How>(source, executor,
                       Call(std::forward<F>(callback), child));
  return Access::FutureOf(std::move(child));
}

// A callback of ThenValue() as one of Then(). Argument: const Result<T>& or
// Result<T>&&.
template <typename T, typename Argument, typename F>
class ValueCallback {
 public:
  explicit ValueCallback(F fn) : fn_(std::move(fn)) {}

  auto operator()(Argument result) && {
    using R = std::remove_cvref_t<decltype(Call(result))>;
    using U = typename Returned<R>::Value;
    if constexpr (Returned<R>::kIsFuture) {
      if (result.ok()) return Call(result);
      return FailedFuture<U>(StatusOf(result));
    } else if constexpr (std::is_void_v<R>) {
      if (result.ok()) Call(result);
      return StatusOf(result);
    } else {
      if (!result.ok()) return Result<U>(StatusOf(result));
      return Result<U>(Call(result));
    }
  }

 private:
  static const absl::Status& StatusOf(const absl::Status& status) {
    return status;
  }
  template <typename V>
  static const absl::Status& StatusOf(const absl::StatusOr<V>& result) {
    return result.status();
  }
  template <typename U>
  static Future<U> FailedFuture(absl::Status error) {
    Promise<U> promise;
    promise.SetError(std::move(error)).IgnoreError();
    return promise.future();
  }
  // With an OK result.
  decltype(auto) Call(std::remove_reference_t<Argument>& result) {
    if constexpr (std::is_void_v<T>) {
      return std::invoke(std::move(fn_));
    } else {
      return std::invoke(std::move(fn_), *static_cast<Argument>(result));
    }
  }

  F fn_;
};

template <typename T, typename Argument, typename F>
auto OnValue(F&& callback) {
  using Fn = std::decay_t<F>;
  if constexpr (std::is_void_v<T>) {
    static_assert(std::is_invocable_v<Fn>,
                  "the callback of ThenValue takes nothing if T is void");
  } else {
    static_assert(
        std::is_invocable_v<Fn, decltype(*std::declval<Argument>())>,
        "the callback of ThenValue takes T; an lvalue future passes it as a "
        "const reference");
  }
  return ValueCallback<T, Argument, Fn>(std::forward<F>(callback));
}

template <typename Argument, typename F>
constexpr void CheckDone() {
  using R = std::invoke_result_t<F, Argument>;
  static_assert(std::is_void_v<R> || std::is_same_v<R, absl::Status>,
                "the callback of AddDoneCallback returns nothing or "
                "absl::Status; Then passes on what a callback returns");
}

// For the process pool (wait_helper.h): sets the helper of `promise`, before
// another thread can have its future.
template <typename T>
void SetWaitHelper(Promise<T>& promise, std::shared_ptr<WaitHelper> helper) {
  Access::StateOf(promise)->SetWaitHelper(std::move(helper));
}

}  // namespace internal_future

template <typename T>
absl::Status Future<T>::Wait(absl::Duration timeout) const {
  return state_ == nullptr ? absl::OkStatus() : state_->Wait(timeout);
}

template <typename T>
const Result<T>& Future<T>::value() const& {
  using internal_future::LastingError;
  if (state_ == nullptr) {
    return LastingError<T, internal_future::EmptyFutureError>();
  }
  if (!state_->IsReady()) {
    return LastingError<T, internal_future::NotDoneError>();
  }
  return state_->result;
}

template <typename T>
Result<T> Future<T>::value() && {
  if (state_ == nullptr) return internal_future::EmptyFutureError();
  if (!state_->IsReady()) return internal_future::NotDoneError();
  if (!state_->IsFinished()) return internal_future::NotFinishedError();
  return std::move(std::exchange(state_, nullptr)->result);
}

template <typename T>
template <typename F>
auto Future<T>::Then(F&& callback) const& {
  using How = internal_future::OnLvalue<T>;
  if (state_ != nullptr) {  // Without a copy.
    return internal_future::AttachThen<T, How>(state_,
                                               std::forward<F>(callback));
  }
  return internal_future::AttachThen<T, How>(
      internal_future::StateOfEmptyFuture<T>(), std::forward<F>(callback));
}

template <typename T>
template <typename F>
auto Future<T>::Then(F&& callback) && {
  return internal_future::AttachThen<T, internal_future::OnRvalue<T>>(
      internal_future::StateOrEmpty(std::exchange(state_, nullptr)),
      std::forward<F>(callback));
}

template <typename T>
template <typename F>
auto Future<T>::Then(Executor& executor, F&& callback) const& {
  return internal_future::AttachThenOn<T, internal_future::OnLvalue<T>>(
      internal_future::StateOrEmpty(state_), executor,
      std::forward<F>(callback));
}

template <typename T>
template <typename F>
auto Future<T>::Then(Executor& executor, F&& callback) && {
  return internal_future::AttachThenOn<T, internal_future::OnRvalue<T>>(
      internal_future::StateOrEmpty(std::exchange(state_, nullptr)), executor,
      std::forward<F>(callback));
}

template <typename T>
Result<T> Future<T>::Get(absl::Duration timeout) const& {
  static_assert(std::is_void_v<T> || std::is_copy_constructible_v<T>,
                "Get() on an lvalue copies the result: std::move(future).Get() "
                "moves it");
  const absl::Status waited = Wait(timeout);
  if (!waited.ok()) return waited;
  return value();
}

template <typename T>
Result<T> Future<T>::Get(absl::Duration timeout) && {
  const absl::Status waited = Wait(timeout);
  if (!waited.ok()) return waited;
  return std::move(*this).value();
}

template <typename T>
template <typename F>
auto Future<T>::ThenValue(F&& callback) const& {
  return Then(
      internal_future::OnValue<T, const Result<T>&>(std::forward<F>(callback)));
}

template <typename T>
template <typename F>
auto Future<T>::ThenValue(F&& callback) && {
  return std::move(*this).Then(
      internal_future::OnValue<T, Result<T>&&>(std::forward<F>(callback)));
}

template <typename T>
template <typename F>
auto Future<T>::ThenValue(Executor& executor, F&& callback) const& {
  return Then(executor, internal_future::OnValue<T, Result<T>&&>(
                            std::forward<F>(callback)));
}

template <typename T>
template <typename F>
auto Future<T>::ThenValue(Executor& executor, F&& callback) && {
  return std::move(*this).Then(
      executor,
      internal_future::OnValue<T, Result<T>&&>(std::forward<F>(callback)));
}

template <typename T>
template <typename F>
void Future<T>::AddDoneCallback(F&& callback) const {
  using internal_future::StateBase;
  using Fn = std::decay_t<F>;
  internal_future::CheckDone<const Result<T>&, Fn>();
  auto attached = std::make_unique<internal_future::DoneCallback<T, Fn>>(
      std::forward<F>(callback));
  if (state_ != nullptr) {
    StateBase::AttachTo(state_, std::move(attached), StateBase::Order::kAtOnce);
  } else {
    attached->Run(*internal_future::StateOfEmptyFuture<T>());
  }
}

template <typename T>
template <typename F>
void Future<T>::AddDoneCallback(Executor& executor, F&& callback) const {
  using Fn = std::decay_t<F>;
  internal_future::CheckDone<Result<T>&&, Fn>();
  internal_future::AttachSubmit<T, internal_future::OnLvalue<T>>(
      *internal_future::StateOrEmpty(state_), executor,
      internal_future::DoneCall<T, Fn>(std::forward<F>(callback)));
}

template <typename T>
void Future<T>::RequestCancel() const {
  if (!done()) internal_future::CancelRequest::RequestCancel(state_);
}

template <typename T>
Promise<T>::~Promise() {
  // Not by TrySetError: most promises are complete, and need no error object.
  if (state_ != nullptr && state_->Claim()) {
    internal_future::PublishResult<T>(std::move(state_),
                                      internal_future::DroppedPromiseError());
  }
}

template <typename T>
Promise<T>& Promise<T>::operator=(Promise&& other) noexcept {
  // The old state is dropped last: its callbacks may use both promises.
  Promise dropped(std::move(other));
  std::swap(state_, dropped.state_);
  std::swap(has_given_future_, dropped.has_given_future_);
  return *this;
}

template <typename T>
Future<T> Promise<T>::future() {
  if (std::exchange(has_given_future_, true)) return Future<T>();
  return Future<T>(state_);
}

template <typename T>
absl::Status Promise<T>::SetValue(Value value) requires(!std::is_void_v<T>) {
  if (TrySetValue(std::move(value))) return absl::OkStatus();
  return internal_future::AlreadyCompleteError();
}

template <typename T>
absl::Status Promise<T>::SetValue() requires std::is_void_v<T> {
  if (TrySetValue()) return absl::OkStatus();
  return internal_future::AlreadyCompleteError();
}

template <typename T>
absl::Status Promise<T>::SetError(absl::Status error) {
  if (TrySetError(std::move(error))) return absl::OkStatus();
  return internal_future::AlreadyCompleteError();
}

template <typename T>
bool Promise<T>::TrySetValue(Value value) requires(!std::is_void_v<T>) {
  return internal_future::Complete(state_, Result<T>(std::move(value)));
}

template <typename T>
bool Promise<T>::TrySetValue() requires std::is_void_v<T> {
  return internal_future::Complete(state_, absl::OkStatus());
}

template <typename T>
bool Promise<T>::TrySetError(absl::Status error) {
  return internal_future::Complete(
      state_, internal_future::CheckedError(std::move(error)));
}

template <typename T>
bool Promise<T>::cancel_requested() const {
  return state_ != nullptr && state_->IsCancelRequested();
}

template <typename T>
template <typename F>
void Promise<T>::OnCancelRequest(F&& callback) {
  using Fn = std::decay_t<F>;
  // The callback may destroy this.
  const std::shared_ptr<internal_future::State<T>> state = state_;
  if (state == nullptr) return;
  state->AddCancelCallbackUnlessReady(
      std::make_unique<internal_future::CancelCallbackOf<Fn>>(
          std::forward<F>(callback)));
}

}  // namespace tenon::futures

#endif  // TENON_FUTURES_FUTURE_DEFINITIONS_H_
