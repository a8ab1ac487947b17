// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Promise and Future: a value or an error that arrives later.
//
//   Promise<int> promise;
//   Future<std::string> text =
//       promise.future().Then([](absl::StatusOr<int> count) {
//         return count.ok() ? absl::StrCat(*count, " samples") : "none";
//       });
//   std::jthread worker([&] { promise.SetValue(64).IgnoreError(); });
//   TENON_RETURN_IF_ERROR(text.Wait(absl::Seconds(5)));
//   return std::move(text).value();  // "64 samples"
//
// The life of a future:
//
//              SetValue, SetError,         the callbacks attached
//              promise dropped             before have returned
//    pending ----------------------> done -----------------------> finished
//
//    pending   callbacks are kept; value() is kFailedPrecondition
//    done      done() is true and value() is there; the callbacks run one by
//              one, in the order of their attachment, on the thread that
//              completed the promise; one attached now runs at once
//    finished  Wait() returns; the result may be moved out
//
// Futures start no threads: the call that completes a promise runs its
// callbacks before it returns, or passes each to the executor that it was
// attached with. A promise that is completed inside a callback leaves its own
// callbacks to the outermost such call on that thread, so a chain of any length
// uses constant stack. A future is valid in one process only.
//
// Related headers: executor.h and thread_pool.h (where callbacks run), async.h
// (a function's future), collect.h (several futures), coroutine.h (co_await),
// callback_failure.h (errors that no future carries).

#ifndef TENON_FUTURES_FUTURE_H_
#define TENON_FUTURES_FUTURE_H_

#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/internal/future_callback.h"
#include "tenon/futures/internal/future_state.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::futures {

template <typename T>
class Promise;

// The receiving end. T is void or an object type whose move constructor is
// noexcept; the compiler rejects others (for example types with a const
// member). Result<T> is absl::StatusOr<T>, and absl::Status for void: there is
// no third "unit" type to learn, and a callback without a value returns nothing
// or a Status.
//
// Ownership: the only handle of its kind, movable; dropping it detaches from
//   the result, and callbacks still run. Empty when default-constructed or
//   moved from: it then behaves like a future that failed with
//   kFailedPrecondition.
// Threads: thread-compatible: const members from any number of threads at once.
// Processes: not across fork; the thread that would complete it may not exist
//   in the child.
// Trust: not applicable, it stays within one process.
// Failure: errors arrive as the result. A dropped promise is kAborted, not
//   kCancelled: cancellation is always the result of a request.
template <typename T>
class [[nodiscard]] Future {
 public:
  Future() = default;
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  // Whether the result is available. Never blocks.
  bool done() const { return state_ == nullptr || state_->IsReady(); }

  // Blocks until the future is done and every callback attached before has
  // returned. Inside a callback of this future it returns at once; inside any
  // other callback it first runs the callbacks that its thread has deferred. A
  // callback that waits for an event which depends on this future deadlocks. OK
  // means done, with a value or an error: value() tells which. `timeout` is
  // measured on the monotonic clock.
  // Errors: kDeadlineExceeded.
  absl::Status Wait(absl::Duration timeout = absl::InfiniteDuration()) const;
  absl::Status Wait(Deadline deadline) const {
    return Wait(deadline.Remaining());
  }

  // Wait(), then the result: a copy of an lvalue's; moved out of an rvalue,
  // which is left empty.
  //
  //   TENON_ASSIGN_OR_RETURN(int answer, std::move(sum).Get(deadline));
  //
  // Errors: the result's own; kDeadlineExceeded, after which an rvalue, too,
  // keeps its result (done() tells it from a result of that code); value()'s.
  Result<T> Get(absl::Duration timeout = absl::InfiniteDuration()) const&;
  Result<T> Get(absl::Duration timeout = absl::InfiniteDuration()) &&;
  Result<T> Get(Deadline deadline) const& { return Get(deadline.Remaining()); }
  Result<T> Get(Deadline deadline) && {
    return std::move(*this).Get(deadline.Remaining());
  }

  // The result. Never blocks. Errors: kFailedPrecondition if not done, and the
  // result's own.
  const Result<T>& value() const& ABSL_ATTRIBUTE_LIFETIME_BOUND;

  // Moves the result out and leaves the future empty. Errors: also
  // kFailedPrecondition if done but not finished; the future then keeps the
  // result.
  Result<T> value() &&;

  // Calls `callback` once with the result and returns the future of the
  // callback's result: a Future<void> for void or absl::Status, a Future<U> for
  // U, absl::StatusOr<U> or Future<U>. An exception becomes kUnknown in it. On
  // an lvalue the callback takes `const Result<T>&`, and there may be many. On
  // an rvalue it takes `Result<T>`, is the last callback, waits for the others
  // to return, and leaves the future empty. On a done future `callback` runs on
  // this stack: a loop of callbacks that each do so is a recursion.
  template <typename F>
  auto Then(F&& callback) const&;
  template <typename F>
  auto Then(F&& callback) &&;

  // Then() on `executor`, which outlives the callback. The callback takes
  // `Result<T>`: on an lvalue a copy, and then for Wait() it counts as returned
  // once the executor has it. If the executor drops it: kAborted.
  template <typename F>
  auto Then(Executor& executor, F&& callback) const&;
  template <typename F>
  auto Then(Executor& executor, F&& callback) &&;

  // Then() for values: `callback` takes `const T&` on an lvalue, `T` on an
  // rvalue or an executor, nothing if T is void. An error is passed on without
  // a call.
  //
  //   auto size = std::move(name).ThenValue(
  //       [](std::string text) { return text.size(); });
  template <typename F>
  auto ThenValue(F&& callback) const&;
  template <typename F>
  auto ThenValue(F&& callback) &&;
  template <typename F>
  auto ThenValue(Executor& executor, F&& callback) const&;
  template <typename F>
  auto ThenValue(Executor& executor, F&& callback) &&;

  // Calls `callback`, which returns nothing or absl::Status, once with `const
  // Result<T>&`. An exception or an error goes to callback_failure.h, as no
  // future carries it; promises that the callback holds end as kAborted.
  template <typename F>
  void AddDoneCallback(F&& callback) const;

  // AddDoneCallback() on `executor`, with a copy; a dropped callback is an
  // error, too.
  template <typename F>
  void AddDoneCallback(Executor& executor, F&& callback) const;

  // Asks the owner of the promise to cancel, once; no effect if done. The owner
  // decides how to react; by convention it sets kCancelled. Runs the callbacks
  // of Promise::OnCancelRequest, which may block; inside one of those, it
  // defers them until that one has returned. Forwarded to futures without
  // another handle: one that Then() consumed (on an rvalue), that a callback
  // returned, that a coroutine awaits, and all collected futures. Dropping a
  // future cancels nothing.
  void RequestCancel() const;

 private:
  friend class Promise<T>;
  friend struct internal_future::Access;
  using State = internal_future::State<T>;

  explicit Future(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

// The sending end.
//
// Ownership: movable. Dropped or assigned to before it is complete, it
//   completes with kAborted. Empty when moved from, and then incompletable. A
//   callback that holds the promise of its own future leaks both.
// Threads: Set* and TrySet* may race on one promise, and one wins; the rest is
//   for one thread at a time. A callback may destroy the promise that runs it.
// Processes, Trust: as Future.
// Failure: a call that loses the race changes nothing; its argument is
//   destroyed.
template <typename T>
class Promise {
 public:
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  Promise() : state_(std::make_shared<internal_future::State<T>>()) {}
  ~Promise();
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&& other) noexcept;

  // The future, once; later calls return an empty one.
  Future<T> future();

  // These complete the future and run its callbacks, which may block.
  // Errors: kFailedPrecondition if complete already, or moved from.
  absl::Status SetValue(Value value) requires(!std::is_void_v<T>);
  absl::Status SetValue() requires std::is_void_v<T>;
  // An OK `error` arrives as kInternal, so that the future completes in any
  // case.
  absl::Status SetError(absl::Status error);

  // For racing callers: true if this call completed the future.
  bool TrySetValue(Value value) requires(!std::is_void_v<T>);
  bool TrySetValue() requires std::is_void_v<T>;
  bool TrySetError(absl::Status error);

  // Whether Future::RequestCancel was called. Never blocks. Thread-safe.
  bool cancel_requested() const;

  // Calls `callback`, which takes nothing and returns nothing or absl::Status,
  // upon the request, or at once if it was made before: on the requesting
  // thread, so it should not block. Destroyed without a call when the promise
  // is complete. A running callback may outlast the completion, on another
  // thread, so it should own the objects it uses. Its errors go to
  // callback_failure.h.
  template <typename F>
  void OnCancelRequest(F&& callback);

 private:
  friend struct internal_future::Access;

  std::shared_ptr<internal_future::State<T>> state_;
  bool has_given_future_ = false;
};

}  // namespace tenon::futures

#include "tenon/futures/future_definitions.h"  // IWYU pragma: export

#endif  // TENON_FUTURES_FUTURE_H_
