// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The definitions of future.h, which includes this last. Nobody else does.

#ifndef TENON_FUTURES_FUTURE_DEFINITIONS_H_
#define TENON_FUTURES_FUTURE_DEFINITIONS_H_

#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/futures/future.h"
#include "tenon/futures/future_callback.h"
#include "tenon/futures/future_state.h"

namespace tenon::futures {
namespace internal_future {

// A Result that lasts, for a value() that has nothing better to refer to.
template <typename T, absl::Status (*MakeError)()>
const Result<T>& LastingError() {
  static const auto* const error = new Result<T>(MakeError());
  return *error;
}

template <typename T>
std::shared_ptr<State<T>> StateOfEmptyFuture() {
  auto state = std::make_shared<State<T>>();
  Complete(state, EmptyFutureError());
  return state;
}

// Attaches `callback` to `state` and returns the state of what it will return.
template <typename T, typename Argument, typename F>
auto AttachThen(State<T>& state, F&& callback, StateBase::Order order) {
  using Fn = std::decay_t<F>;
  static_assert(std::is_invocable_v<Fn, Argument>,
                "the callback of Then takes absl::StatusOr<T>, or absl::Status "
                "if T is void; a future that is no temporary passes it as a "
                "const reference");
  using Attached = ThenCallback<T, Argument, Fn>;
  auto child = std::make_shared<State<typename Attached::U>>();
  state.Attach(std::make_unique<Attached>(std::forward<F>(callback), child),
               order);
  return child;
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
  using internal_future::StateBase;
  // The state of an empty future lives to the end of the statement.
  auto child = internal_future::AttachThen<T, const Result<T>&>(
      state_ != nullptr ? *state_ : *internal_future::StateOfEmptyFuture<T>(),
      std::forward<F>(callback), StateBase::Order::kAtOnce);
  return Future<typename decltype(child)::element_type::ValueType>(
      std::move(child));
}

template <typename T>
template <typename F>
auto Future<T>::Then(F&& callback) && {
  using internal_future::StateBase;
  const std::shared_ptr<State> state =
      state_ != nullptr ? std::exchange(state_, nullptr)
                        : internal_future::StateOfEmptyFuture<T>();
  auto child = internal_future::AttachThen<T, Result<T>&&>(
      *state, std::forward<F>(callback), StateBase::Order::kInOrder);
  return Future<typename decltype(child)::element_type::ValueType>(
      std::move(child));
}

template <typename T>
template <typename F>
void Future<T>::AddDoneCallback(F&& callback) const {
  using internal_future::StateBase;
  using Fn = std::decay_t<F>;
  static_assert(std::is_void_v<std::invoke_result_t<Fn, const Result<T>&>>,
                "the callback of AddDoneCallback returns nothing; Then passes "
                "on what a callback returns");
  auto attached = std::make_unique<internal_future::DoneCallback<T, Fn>>(
      std::forward<F>(callback));
  if (state_ != nullptr) {
    state_->Attach(std::move(attached), StateBase::Order::kAtOnce);
  } else {
    attached->Run(*internal_future::StateOfEmptyFuture<T>());
  }
}

template <typename T>
Promise<T>::~Promise() {
  // Not by TrySetError: most promises are complete, and need no error made.
  if (state_ != nullptr && state_->Claim()) {
    internal_future::PublishResult<T>(std::move(state_),
                                      internal_future::DroppedPromiseError());
  }
}

template <typename T>
Promise<T>& Promise<T>::operator=(Promise&& other) noexcept {
  // What is assigned to is dropped last: its callbacks may use both promises.
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

}  // namespace tenon::futures

#endif  // TENON_FUTURES_FUTURE_DEFINITIONS_H_
