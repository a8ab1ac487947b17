// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/internal/future_state.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/futures/wait_helper.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::futures::internal_future {

SteadyTime DeadlineAfter(absl::Duration timeout) {
  const SteadyTime now = std::chrono::steady_clock::now();
  const absl::Duration left = absl::FromChrono(SteadyTime::max() - now);
  if (timeout >= left) return SteadyTime::max();
  if (timeout <= absl::ZeroDuration()) return SteadyTime::min();
  return now + absl::ToChronoNanoseconds(timeout);
}

struct StateBase::Queue {
  void Push(std::shared_ptr<StateBase> state) {
    StateBase* added = state.get();
    (last == nullptr ? first : last->next_queued_) = std::move(state);
    last = added;
  }
  std::shared_ptr<StateBase> Pop() {
    std::shared_ptr<StateBase> state = std::move(first);
    first = std::move(state->next_queued_);
    if (first == nullptr) last = nullptr;
    return state;
  }

  std::shared_ptr<StateBase> first;
  StateBase* last = nullptr;
};

StateBase::Queue*& StateBase::QueueOfThisThread() {
  // A plain pointer: it needs no destructor, so the destructors of other
  // thread-locals may still complete promises.
  static constinit thread_local Queue* queue = nullptr;
  return queue;
}

void StateBase::Publish(std::shared_ptr<StateBase> state) {
  state->DropCancelCallbacks();  // Too late to ask.
  state->completer_ = std::this_thread::get_id();
  const bool has_callbacks = state->TakeCallbacks();
  state->DropCancelCallbacks();  // Callbacks added meanwhile.
  if (!has_callbacks) return;
  Queue*& current = QueueOfThisThread();
  if (current != nullptr) return current->Push(std::move(state));
  Queue queue;
  current = &queue;
  queue.Push(std::move(state));
  while (RunOneQueued()) {
  }
  current = nullptr;
}

bool StateBase::RunOneQueued() {
  Queue* const queue = QueueOfThisThread();
  if (queue == nullptr || queue->first == nullptr) return false;
  queue->Pop()->RunCallbacks();
  return true;
}

void StateBase::RunCallbacks() {
  do {
    while (deferred_ != nullptr) {
      const CallbackPtr callback(deferred_);
      deferred_ = callback->next_;
      callback->Run(*this);
    }
  } while (TakeCallbacks());
}

bool StateBase::TakeCallbacks() {
  uintptr_t word = word_.load(std::memory_order_relaxed);
  uintptr_t next;
  do {
    next = ListOf(word) == nullptr ? kFinished : kReady | (word & kSleeper);
  } while (!word_.compare_exchange_weak(word, next, std::memory_order_seq_cst,
                                        std::memory_order_relaxed));
  // The list has the newest first; they run oldest first.
  for (Callback* callback = ListOf(word); callback != nullptr;) {
    Callback* const older = std::exchange(callback->next_, deferred_);
    deferred_ = callback;
    callback = older;
  }
  if (next != kFinished) return true;
  if ((word & kSleeper) != 0) {
    { const ThreadLock lock(&mutex_); }
    finished_.NotifyAll();
  }
  return false;
}

void StateBase::Attach(CallbackPtr callback, Order order) {
  KeepUnlessDue(callback, order);
  if (callback != nullptr) callback->Run(*this);
}

void StateBase::KeepUnlessDue(CallbackPtr& callback, Order order) {
  uintptr_t word = Load();
  uintptr_t next;
  do {
    const bool at_once = order == Order::kAtOnce && (word & kReady) != 0;
    if (at_once || (word & kFinished) == kFinished) return;
    callback->next_ = ListOf(word);
    next = reinterpret_cast<uintptr_t>(callback.get()) |
           (word & (kReady | kSleeper));
  } while (!word_.compare_exchange_weak(word, next, std::memory_order_acq_rel,
                                        std::memory_order_acquire));
  static_cast<void>(callback.release());  // Owned by the word now.
}

void StateBase::AddCancelCallbackUnlessReady(
    std::unique_ptr<CancelCallback> callback) {
  if (IsReady()) return;
  AddCancelCallback(std::move(callback));
  if ((word_.load(std::memory_order_seq_cst) & kReady) != 0) {
    DropCancelCallbacks();
  }
}

absl::Status StateBase::Wait(absl::Duration timeout) {
  if (IsFinished()) return absl::OkStatus();
  if (WaitUntil(DeadlineAfter(timeout))) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      "Future::Wait: after ", absl::FormatDuration(timeout),
      IsReady() ? " the result is available, but an earlier callback has "
                  "not returned"
                : " there is no result"));
}

bool StateBase::RunQueuedUntilDue() {
  // Inside a callback: the awaited state may depend on callbacks that this
  // thread has deferred, so they run first.
  while (!IsFinished() && RunOneQueued()) {
  }
  // Inside a callback of this future, which cannot wait for its own end.
  return IsReady() && completer_ == std::this_thread::get_id();
}

bool StateBase::WaitUntil(SteadyTime deadline) {
  if (RunQueuedUntilDue()) return true;
  if (wait_helper_ != nullptr && !IsReady() && deadline != SteadyTime::min()) {
    wait_helper_->Help(deadline);
    // A callback may have completed this state, or others.
    if (RunQueuedUntilDue()) return true;
  }
  return SleepUntil(deadline);
}

bool StateBase::SleepUntil(SteadyTime deadline) {
  const ThreadLock lock(&mutex_);
  uintptr_t word = Load();
  do {
    if ((word & kFinished) == kFinished) return true;
  } while (!word_.compare_exchange_weak(word, word | kSleeper,
                                        std::memory_order_acquire));
  while (!IsFinished()) {
    if (!finished_.WaitUntil(&mutex_, deadline)) return IsFinished();
  }
  return true;
}

absl::Status CheckedError(absl::Status error) {
  if (!error.ok()) return error;
  return absl::InternalError("Promise: SetError was called with an OK status");
}

absl::Status AlreadyCompleteError() {
  return absl::FailedPreconditionError(
      "Promise: already complete, or moved from");
}

absl::Status DroppedPromiseError() {
  return absl::AbortedError("Promise: dropped without a value or an error");
}

absl::Status DroppedTaskError() {
  return absl::AbortedError("Executor: destroyed the task without running it");
}

absl::Status EmptyFutureError() {
  return absl::FailedPreconditionError(
      "Future: empty; default-constructed, moved from, or taken from its "
      "promise before");
}

absl::Status NotDoneError() {
  return absl::FailedPreconditionError("Future::value: not done");
}

absl::Status NotFinishedError() {
  return absl::FailedPreconditionError(
      "Future::value: cannot be moved out, an earlier callback has "
      "not returned; Wait() first");
}

absl::Status OwnFutureError() {
  return absl::FailedPreconditionError(
      "Future::Then: the callback returned the future that waits for it");
}

}  // namespace tenon::futures::internal_future
