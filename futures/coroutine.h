// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// co_await on futures, and coroutines that return one.
//
//   Future<int> Total(Future<int> a, Executor& pool) {
//     absl::StatusOr<int> first = co_await std::move(a);
//     if (!first.ok()) co_return first.status();
//     co_await ResumeOn(pool);
//     co_return *first + Expensive();
//   }
//
// co_await yields the same as Then() passes to its callback: on an rvalue the
// Result<T> itself, once earlier callbacks have returned; on an lvalue a const
// reference to it, valid as long as the future. If the future is done, the
// coroutine continues at once; if not, the thread that completes the promise
// resumes it.
//
// A coroutine runs when called, up to its first wait. It ends with co_return of
// a Result<T> or a T. A coroutine that returns Future<void> must co_return a
// Status too: flowing off its end is undefined, as C++ allows either but not
// both. An exception becomes kUnknown. Its locals and parameters are destroyed
// before its future is done. Neither loops of co_await nor chains of coroutines
// recurse.
//
// Ownership: a suspended coroutine is kept alive by the future it awaits, which
//   always completes: a dropped promise completes with kAborted. Parameters are
//   kept as declared: references, and captures of a lambda, must outlive it.
// Threads: one thread at a time runs a coroutine.
// Processes, Trust, Failure: as Future.
//
// RequestCancel() on its future is forwarded to the rvalue future that the
// coroutine awaits then, and to those that it awaits later. The coroutine can
// check for it: bool asked = co_await CancelRequested();
//
// gcc 12 miscompiles some coroutines that have co_await in the condition of an
// if, of these as of any library: give what it yields a name first.

#ifndef TENON_FUTURES_COROUTINE_H_
#define TENON_FUTURES_COROUTINE_H_

#include <coroutine>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/config.h"
#include "absl/status/status.h"
#include "tenon/futures/callback_failure.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"
#include "tenon/futures/internal/cancel_request.h"
#include "tenon/futures/internal/future_callback.h"
#include "tenon/futures/internal/future_state.h"

namespace tenon::futures {
namespace internal_future {

// The promise_type of coroutines that return Future<T>.
template <typename T>
class CoroutinePromise {
 public:
  // At the end: destroys the coroutine, then completes its future.
  struct Finish {
    bool await_ready() const noexcept { return false; }
    // Not inlined: clang before 18 would keep its locals in the destroyed
    // frame.
    ABSL_ATTRIBUTE_NOINLINE void await_suspend(
        std::coroutine_handle<CoroutinePromise> coroutine) noexcept {
      CoroutinePromise& self = coroutine.promise();
      Promise<T> promise = std::move(self.promise_);
      Result<T> result = std::move(self.result_);
      coroutine.destroy();
      Complete(Access::StateOf(promise), std::move(result));
    }
    void await_resume() const noexcept {}
  };

  Future<T> get_return_object() { return promise_.future(); }
  std::suspend_never initial_suspend() const noexcept { return {}; }
  Finish final_suspend() const noexcept { return {}; }
  void return_value(Result<T> result) { result_ = std::move(result); }
  void unhandled_exception() noexcept {
#ifdef ABSL_HAVE_EXCEPTIONS
    result_ = CatchExceptions([] { throw; });
#endif
  }

  CancelRequest& cancel_request() { return *Access::StateOf(promise_); }

  // For a coroutine that is destroyed before its end.
  Promise<T> TakePromise() { return std::move(promise_); }

 private:
  Promise<T> promise_;
  Result<T> result_;
};

// Waits for a state. It is also the callback: it is part of the coroutine's
// frame, which may be destroyed when the coroutine resumes, so resuming comes
// last, in Dispose.
template <typename T, bool kTake>
class [[nodiscard]] FutureAwaiter final : public Callback {
 public:
  explicit FutureAwaiter(std::shared_ptr<State<T>> state)
      : state_(std::move(state)) {}

  bool await_ready() const noexcept {
    return kTake ? state_->IsFinished() : state_->IsReady();
  }

  // False if it need not wait. Not inlined: as above.
  template <typename P>
  ABSL_ATTRIBUTE_NOINLINE bool await_suspend(
      std::coroutine_handle<P> coroutine) noexcept {
    coroutine_ = coroutine;
    if constexpr (kTake && requires { coroutine.promise().cancel_request(); }) {
      cancel_request_ = &coroutine.promise().cancel_request();
      cancel_request_->PassCancelOnTo(state_);
    }
    CallbackPtr self(this);
    // Once stored, another thread may resume the coroutine and destroy it.
    state_->KeepUnlessDue(
        self, kTake ? StateBase::Order::kInOrder : StateBase::Order::kAtOnce);
    if (self == nullptr) return true;
    static_cast<void>(self.release());
    Unlink();
    return false;
  }

  std::conditional_t<kTake, Result<T>, const Result<T>&> await_resume() {
    if constexpr (kTake) {
      return std::move(state_->result);
    } else {
      return state_->result;
    }
  }

 private:
  void Run(StateBase& /*source*/) noexcept override {}
  void Dispose() noexcept override {
    Unlink();
    coroutine_.resume();
  }
  void Unlink() {
    if (cancel_request_ != nullptr) cancel_request_->StopPassingCancelOn();
  }

  std::shared_ptr<State<T>> state_;
  CancelRequest* cancel_request_ = nullptr;  // Of the coroutine's future.
  std::coroutine_handle<> coroutine_;
};

// A waiting coroutine as a task: resumed, or destroyed with the task.
template <typename P>
class Resumption {
 public:
  explicit Resumption(std::coroutine_handle<P> coroutine)
      : coroutine_(coroutine) {}
  Resumption(Resumption&& other) noexcept
      : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  ~Resumption() {
    if (coroutine_ == nullptr) return;
    if constexpr (requires { coroutine_.promise().TakePromise(); }) {
      // Destroyed after the coroutine, whose parameters would otherwise outlive
      // it.
      const auto promise = coroutine_.promise().TakePromise();
      coroutine_.destroy();
    } else {
      coroutine_.destroy();
    }
  }
  void operator()() && { std::exchange(coroutine_, nullptr).resume(); }

 private:
  std::coroutine_handle<P> coroutine_;
};

}  // namespace internal_future

template <typename T>
auto operator co_await(Future<T>&& future) {
  using internal_future::Access;
  return internal_future::FutureAwaiter<T, true>(internal_future::StateOrEmpty(
      std::exchange(Access::StateOf(future), nullptr)));
}

template <typename T>
auto operator co_await(const Future<T>& future) {
  using internal_future::Access;
  return internal_future::FutureAwaiter<T, false>(
      internal_future::StateOrEmpty(Access::StateOf(future)));
}

// co_await ResumeOn(executor): the coroutine continues there. If the executor
// drops the task, the coroutine is destroyed: its future ends with kAborted.
class [[nodiscard]] ResumeOn {
 public:
  explicit ResumeOn(Executor& executor) : executor_(executor) {}

  bool await_ready() const noexcept { return &executor_ == &InlineExecutor(); }
  template <typename P>
  ABSL_ATTRIBUTE_NOINLINE void await_suspend(
      std::coroutine_handle<P> coroutine) const noexcept {
    // From Execute on, this object may be destroyed. If Execute throws, the
    // task has been dropped.
    Executor& executor = executor_;
    internal_future::CatchExceptions([&executor, coroutine] {
      executor.Execute(Task(internal_future::Resumption(coroutine)));
    }).IgnoreError();
  }
  void await_resume() const noexcept {}

 private:
  Executor& executor_;
};

// co_await CancelRequested(): whether RequestCancel() was called on the future
// of this coroutine. Does not wait.
class [[nodiscard]] CancelRequested {
 public:
  bool await_ready() const noexcept { return false; }
  template <typename T>
  bool await_suspend(std::coroutine_handle<internal_future::CoroutinePromise<T>>
                         coroutine) noexcept {
    requested_ = coroutine.promise().cancel_request().IsCancelRequested();
    return false;
  }
  bool await_resume() const noexcept { return requested_; }

 private:
  bool requested_ = false;
};

}  // namespace tenon::futures

template <typename T, typename... Arguments>
struct std::coroutine_traits<tenon::futures::Future<T>, Arguments...> {
  using promise_type = tenon::futures::internal_future::CoroutinePromise<T>;
};

#endif  // TENON_FUTURES_COROUTINE_H_
