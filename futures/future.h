// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Promise and Future: a value, or an error, that arrives later.
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
// There are no threads in here: whoever completes a promise runs what hangs on
// it before its call returns, or hands it to the executor that was given with
// it. Only a promise completed inside a callback leaves its callbacks to the
// outermost such call on that thread, so that no chain, however long, deepens
// the stack. Between processes a future means nothing.
//
// Beside this: executor.h and thread_pool.h (where callbacks run), async.h (a
// function's future), collect.h (several at once), coroutine.h (co_await),
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
#include "tenon/futures/future_callback.h"
#include "tenon/futures/future_state.h"

namespace tenon::futures {

template <typename T>
class Promise;

// The receiving end. T is void or an object type whose move constructor is
// noexcept; the compiler refuses others (a const member is enough to be one).
// Result<T> is absl::StatusOr<T>, and absl::Status for void: there is no third
// "unit" type to learn, and a callback without a value returns nothing or a
// Status.
//
// Ownership: the only handle of its kind, movable; dropping it detaches from
//   the result, and callbacks still run. Empty when default-constructed or
//   moved from: it then behaves like one that failed with kFailedPrecondition.
// Threads: thread-compatible: const members from any number of threads at once.
// Processes: not across fork; in the child nobody may be left to complete it.
// Trust: not applicable, it stays within one process.
// Failure: errors arrive as the result. A dropped promise is kAborted: nobody
//   asked for that, which is what kCancelled would say.
template <typename T>
class [[nodiscard]] Future {
 public:
  Future() = default;
  Future(Future&&) noexcept = default;
  Future& operator=(Future&&) noexcept = default;

  // The result is there. Never blocks.
  bool done() const { return state_ == nullptr || state_->IsReady(); }

  // Blocks until the future is done and every callback attached before that has
  // returned. Inside a callback of this very future it returns at once; inside
  // any other it first runs what its thread still owes. A callback that waits
  // for something that waits for this future waits for itself.
  // OK means done, with a value or an error: value() tells which. `timeout` is
  // absl's, not a deadline of //shm, so that this needs Abseil alone; with one:
  // future.Wait(deadline.Remaining()). It is counted on the monotonic clock.
  // Errors: kDeadlineExceeded.
  absl::Status Wait(absl::Duration timeout = absl::InfiniteDuration()) const;

  // The result. Never blocks. Errors: kFailedPrecondition if not done, and the
  // result's own.
  const Result<T>& value() const& ABSL_ATTRIBUTE_LIFETIME_BOUND;

  // Moves the result out and leaves the future empty. Errors: also
  // kFailedPrecondition if done but not finished; the future then stays.
  Result<T> value() &&;

  // Calls `callback` once with the result and returns the future of what it
  // returns: of nothing if that is void or absl::Status, of U if it is U,
  // absl::StatusOr<U> or Future<U>. An exception becomes kUnknown there.
  // On an lvalue the callback takes `const Result<T>&`, and there may be many.
  // On an rvalue it takes `Result<T>`, is the last one, waits for the others to
  // return, and leaves the future empty. On a done future `callback` runs on
  // this stack: a loop of callbacks that each do so is a recursion.
  template <typename F>
  auto Then(F&& callback) const&;
  template <typename F>
  auto Then(F&& callback) &&;

  // The same on `executor`, which outlives the callback. It takes `Result<T>`:
  // on an lvalue a copy, and then for Wait() it has returned as soon as the
  // executor has it. If the executor drops it: kAborted.
  template <typename F>
  auto Then(Executor& executor, F&& callback) const&;
  template <typename F>
  auto Then(Executor& executor, F&& callback) &&;

  // Calls `callback`, which returns nothing or absl::Status, once with `const
  // Result<T>&`. An exception or an error goes to callback_failure.h, as there
  // is no future to carry it; promises that the callback holds end as kAborted.
  template <typename F>
  void AddDoneCallback(F&& callback) const;

  // The same on `executor`, with a copy; an error also if it is dropped.
  template <typename F>
  void AddDoneCallback(Executor& executor, F&& callback) const;

  // Asks whoever holds the promise to give up, once; nothing if done. What it
  // then does, and when, is its own affair: by custom it sets kCancelled. Runs
  // the callbacks of Promise::OnCancelRequest, which may block; inside one of
  // those, it leaves that until they are done.
  // Passed on to what cannot be asked any more otherwise: the future that Then
  // took over (on an rvalue), that a callback returned, that a coroutine is
  // waiting for, and all that were collected. Dropping a future asks nothing.
  void RequestCancel() const;

 private:
  friend class Promise<T>;
  friend struct internal_future::Access;
  using State = internal_future::State<T>;

  explicit Future(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

// The giving end.
//
// Ownership: movable. Dropped or assigned to before it is complete, it
//   completes with kAborted. Empty when moved from, and then incompletable. A
//   callback of a future that holds the promise of the same keeps both for
//   ever.
// Threads: Set* and TrySet* may race on one promise, and one wins; the rest is
//   for one thread at a time. A callback may destroy the promise that runs it.
// Processes, Trust: as Future.
// Failure: a call that loses changes nothing; what it was given is destroyed.
template <typename T>
class Promise {
 public:
  using Value = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

  Promise() : state_(std::make_shared<internal_future::State<T>>()) {}
  ~Promise();
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&& other) noexcept;

  // The future, once; from the second call on an empty one.
  Future<T> future();

  // These complete the future and run its callbacks, which may block.
  // Errors: kFailedPrecondition if complete already, or moved from.
  absl::Status SetValue(Value value) requires(!std::is_void_v<T>);
  absl::Status SetValue() requires std::is_void_v<T>;
  // An OK `error` arrives as kInternal: nobody is left waiting.
  absl::Status SetError(absl::Status error);

  // The same for those who race: true if this call was the one.
  bool TrySetValue(Value value) requires(!std::is_void_v<T>);
  bool TrySetValue() requires std::is_void_v<T>;
  bool TrySetError(absl::Status error);

  // Somebody has called Future::RequestCancel. Never blocks; from any thread.
  bool cancel_requested() const;

  // Calls `callback`, which takes nothing and returns nothing or absl::Status,
  // when that happens, at once if it has: on the thread that asks, so it should
  // not block. Destroyed without a call when the promise is complete. One that
  // has begun may outlast the completion, on another thread, so what it uses it
  // should own. Its errors go to callback_failure.h.
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
