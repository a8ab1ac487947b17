// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The state shared by a Future and its Promise. Internal to future.h.
//
// One atomic word holds the stage of a state and its list of callbacks:
//
//   +---------+  Publish, callbacks wait  +-------+
//   | pending |-------------------------->| ready |
//   +---------+                           +-------+
//        |  Publish, none waits               |  the last callback is back
//        |                                    v
//        |                              +----------+
//        +----------------------------->| finished |
//                                       +----------+
//
//              result                        callbacks
//   pending    the claiming thread writes    any thread adds to the word's list
//   ready      any thread may read           the thread that published runs
//                                            them; kAtOnce ones run where they
//                                            are attached, kInOrder ones join
//   finished   the owner of the only future  run where they are attached
//              may move it out
//
// Memory order.
// - claimed_ only elects; the loser reads nothing, so it is relaxed.
// - The result and completer_ are written before the release that leaves
//   pending. A reader has loaded ready or finished with an acquire.
// - A callback is written before the release that puts it into the word; the
//   publishing thread takes the list with an acquire.
// - Callbacks happen before the release that enters finished, so they do not
//   race with a thread that then moves the result out.
// - Leaving pending, and adding a cancel callback, are each followed by a load
//   of the other's word, all four sequentially consistent: such a callback,
//   which may hold the promise and so this state, is never leaked.
// - The word changes only by read-modify-write, so a release stays in force
//   when other threads change the word after it.
// - A sleeper sets kSleeper in the same word, under mutex_, before it sleeps.
//   The step to finished replaces the word and so cannot miss the bit; it then
//   passes through mutex_, so that the sleeper either sleeps and is woken, or
//   sees finished. One word: no order between two places is needed.

#ifndef TENON_FUTURES_INTERNAL_FUTURE_STATE_H_
#define TENON_FUTURES_INTERNAL_FUTURE_STATE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/futures/internal/cancel_request.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::futures {

namespace internal_future {

class WaitHelper;

template <typename T>
struct ResultOf {
  using Type = absl::StatusOr<T>;
};
template <>
struct ResultOf<void> {
  using Type = absl::Status;
};

}  // namespace internal_future

// The result of a Future<T>: absl::StatusOr<T>, or absl::Status for void.
template <typename T>
using Result = typename internal_future::ResultOf<T>::Type;

namespace internal_future {

using SteadyTime = std::chrono::steady_clock::time_point;

// Saturates: an infinite wait, or one beyond the clock's end, never ends.
SteadyTime DeadlineAfter(absl::Duration timeout);

class StateBase;

// One attached callback. Aligned so that the word has room for three bits.
class alignas(8) Callback {
 public:
  virtual ~Callback() = default;
  // Called once, without locks; the callback is disposed of right after.
  virtual void Run(StateBase& source) noexcept = 0;
  // Overridden by callbacks that are part of a larger object, to omit the
  // delete.
  virtual void Dispose() noexcept { delete this; }

 private:
  friend class StateBase;
  Callback* next_ = nullptr;
};

struct Disposer {
  Disposer() = default;
  template <typename C>
  // Lets std::make_unique create callbacks.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Disposer(std::default_delete<C> /*unused*/) {}
  void operator()(Callback* callback) const { callback->Dispose(); }
};
using CallbackPtr = std::unique_ptr<Callback, Disposer>;

// The part that does not depend on T. Ownership: shared by the promise, the
// future and, while it runs callbacks, the publishing thread.
class StateBase : public CancelRequest {
 public:
  enum class Order { kAtOnce, kInOrder };

  bool IsReady() const { return (Load() & kReady) != 0; }
  bool IsFinished() const { return (Load() & kFinished) == kFinished; }

  // True for one caller, which then writes the result and calls Publish.
  bool Claim() { return !claimed_.exchange(true, std::memory_order_relaxed); }

  // Makes the result visible and runs the callbacks. If this thread is already
  // running callbacks they are queued behind those: a chain does not recurse.
  static void Publish(std::shared_ptr<StateBase> state);

  // Stores `callback`, or runs it here, according to the table above.
  void Attach(CallbackPtr callback, Order order);

  // Attach() for a callback that may destroy the object that holds `state`.
  template <typename S>
  static void AttachTo(const std::shared_ptr<S>& state, CallbackPtr callback,
                       Order order) {
    state->KeepUnlessDue(callback, order);
    if (callback == nullptr) return;
    // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
    const std::shared_ptr<S> kept = state;
    callback->Run(*kept);
  }

  // Stores `callback` and leaves it null, or does nothing if it is due.
  void KeepUnlessDue(CallbackPtr& callback, Order order);

  // Blocks until finished, or for `timeout`; see Future::Wait.
  absl::Status Wait(absl::Duration timeout);

  // Wait() with a deadline; false if the deadline came first.
  bool WaitUntil(SteadyTime deadline);

  // Stores `callback` for a request, or runs it, or drops it if this is ready.
  void AddCancelCallbackUnlessReady(std::unique_ptr<CancelCallback> callback);

  // Sets the helper of waiters, before this is visible to other threads.
  void SetWaitHelper(std::shared_ptr<WaitHelper> helper) {
    wait_helper_ = std::move(helper);
  }
  // SetWaitHelper() with the helper of `source`, on which this state depends.
  void ShareWaitHelperOf(const StateBase& source) {
    if (source.wait_helper_ != nullptr) wait_helper_ = source.wait_helper_;
  }

 private:
  static constexpr uintptr_t kReady = 1;
  static constexpr uintptr_t kFinished = 2 | kReady;
  static constexpr uintptr_t kSleeper = 4;

  static Callback* ListOf(uintptr_t word) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): pointer and bits, one word.
    return reinterpret_cast<Callback*>(word & ~uintptr_t{7});
  }
  uintptr_t Load() const { return word_.load(std::memory_order_acquire); }

  // Moves the word's list to deferred_ and returns true; enters finished and
  // returns false if there is none. For the publishing thread.
  bool TakeCallbacks();
  void RunCallbacks();
  // Runs the callbacks of one state that this thread has published while it
  // was running others; false if there is none.
  static bool RunOneQueued();
  // True if this thread has nothing to wait for.
  bool RunQueuedUntilDue();
  bool SleepUntil(SteadyTime deadline);

  // Lives on the stack of the outermost Publish of each thread.
  struct Queue;
  static Queue*& QueueOfThisThread();

  std::atomic<uintptr_t> word_{0};
  std::atomic<bool> claimed_{false};
  std::thread::id completer_;  // The thread that published.
  std::shared_ptr<WaitHelper> wait_helper_;
  Callback* deferred_ = nullptr;            // For the publishing thread only.
  std::shared_ptr<StateBase> next_queued_;  // Likewise.

  ThreadMutex mutex_;  // Guards sleeping and waking, no data.
  ThreadCondition finished_;
};

// absl::StatusOr moves its value in a function that must not throw: an
// exception of the value's move would end the process, on whatever thread.
template <typename T>
inline constexpr bool kCanBeValue =
    std::is_void_v<T> || std::is_nothrow_move_constructible_v<T>;

template <typename T>
struct State final : StateBase {
  static_assert(
      kCanBeValue<T>,
      "the value of a future needs a move constructor that is noexcept: "
      "declare "
      "it so; make members that are const, and so would be copied, not const; "
      "or use std::unique_ptr<T> or std::shared_ptr<const T>");
  using ValueType = T;
  Result<T> result;
};

// Called by the thread for which Claim() returned true.
template <typename T>
void PublishResult(std::shared_ptr<State<T>> state, Result<T> result) {
  state->result = std::move(result);
  StateBase::Publish(std::move(state));
}

// Completes `state`; false if it is null or complete already.
template <typename T>
bool Complete(std::shared_ptr<State<T>> state,
              std::type_identity_t<Result<T>> result) {
  if (state == nullptr || !state->Claim()) return false;
  PublishResult<T>(std::move(state), std::move(result));
  return true;
}

// `error`, or kInternal instead of OK, which is not an error.
absl::Status CheckedError(absl::Status error);

absl::Status AlreadyCompleteError();
absl::Status DroppedPromiseError();
absl::Status DroppedTaskError();
absl::Status EmptyFutureError();
absl::Status NotDoneError();
absl::Status NotFinishedError();
absl::Status OwnFutureError();

}  // namespace internal_future
}  // namespace tenon::futures

#endif  // TENON_FUTURES_INTERNAL_FUTURE_STATE_H_
