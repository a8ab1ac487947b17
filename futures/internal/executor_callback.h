// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Callbacks that run on an executor. Internal to future.h. A callback holds its
// own copy of the result, or the moved result, so the future reaches "finished"
// without waiting for it.

#ifndef TENON_FUTURES_INTERNAL_EXECUTOR_CALLBACK_H_
#define TENON_FUTURES_INTERNAL_EXECUTOR_CALLBACK_H_

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "tenon/futures/callback_failure.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/internal/cancel_request.h"
#include "tenon/futures/internal/future_callback.h"
#include "tenon/futures/internal/future_state.h"

namespace tenon::futures::internal_future {

// A call and its argument, as a task: run, or aborted when destroyed.
template <typename T, typename Call>
class SubmittedCall {
 public:
  // `result` first: if copying it fails, `call` is intact.
  template <typename Source>
  SubmittedCall(Source&& result, Call& call)
      : result_(std::forward<Source>(result)), call_(std::move(call)) {}
  // If it throws, both are destroyed, and so the call is aborted.
  SubmittedCall(SubmittedCall&&) = default;
  ~SubmittedCall() { call_.Abort(DroppedTaskError()); }

  void operator()() && { call_.Run(std::move(result_)); }

 private:
  Result<T> result_;
  Call call_;
};

// Call: a type with Run(Result<T>&&), Abort(error) and Unlink(), like ThenCall.
// Source: how the result is passed on, Result<T>&& or const Result<T>&.
template <typename T, typename Source, typename Call>
class SubmitCallback final : public Callback {
 public:
  SubmitCallback(Executor& executor, Call call)
      : executor_(executor), call_(std::move(call)) {}

  void Run(StateBase& source) noexcept override {
    // May be the last reference: keeps `source` alive to the end of this
    // function.
    const std::shared_ptr<CancelRequest> link = call_.Unlink();
    const absl::Status caught = CatchExceptions([this, &source] {
      Result<T>& result = static_cast<State<T>&>(source).result;
      executor_.Execute(
          Task(SubmittedCall<T, Call>(static_cast<Source>(result), call_)));
    });
    call_.Abort(caught);  // Only if it did not become a task.
  }

 private:
  Executor& executor_;
  Call call_;
};

// A callback of AddDoneCallback.
template <typename T, typename F>
class DoneCall {
 public:
  explicit DoneCall(F fn) : fn_(std::move(fn)) {}
  DoneCall(DoneCall&& other) noexcept(std::is_nothrow_move_constructible_v<F>)
      : fn_(std::move(other.fn_)) {
    other.fn_.reset();
  }

  void Run(Result<T>&& result) noexcept {
    CallDone<Result<T>&&, F&&>(*std::move(fn_), std::move(result));
    fn_.reset();
  }
  static std::shared_ptr<CancelRequest> Unlink() { return nullptr; }
  void Abort(const absl::Status& error) noexcept {
    if (!fn_.has_value()) return;
    fn_.reset();
    ReportCallbackFailure(error);
  }

 private:
  std::optional<F> fn_;
};

}  // namespace tenon::futures::internal_future

#endif  // TENON_FUTURES_INTERNAL_EXECUTOR_CALLBACK_H_
