// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TimedMutex: a lock between the threads of one process with deadlines, which
// may be held while its holder waits for other processes. Like ThreadMutex
// (thread_mutex.h) it is known to clang's thread safety analysis.
//
//   TimedMutexLock lock(&mutex, deadline);
//   if (!lock.held()) return absl::DeadlineExceededError("...");
//   ++guarded;

#ifndef TENON_IPC_DOORBELL_TIMED_MUTEX_H_
#define TENON_IPC_DOORBELL_TIMED_MUTEX_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "tenon/ipc/doorbell/futex.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Replaces std::timed_mutex, whose clocks some versions of ThreadSanitizer do
// not know.
// Threads: any. Processes: one. Failure: cannot fail.
class ABSL_LOCKABLE TimedMutex {
 public:
  TimedMutex() = default;
  TimedMutex(const TimedMutex&) = delete;
  TimedMutex& operator=(const TimedMutex&) = delete;

  // False if other threads hold it until `deadline`. One atomic operation if it
  // is free.
  bool Lock(Deadline deadline) ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    uint32_t expected = kFree;
    if (StdAtomics::CompareExchange(word_, expected, kHeld,
                                    std::memory_order_acquire)) [[likely]] {
      return true;
    }
    for (;;) {
      // A thread that acquires it this way must assume further waiters.
      expected = kFree;
      if (StdAtomics::CompareExchange(word_, expected, kWaitedFor,
                                      std::memory_order_acquire)) {
        return true;
      }
      if (deadline.has_passed()) return false;
      if (expected == kHeld &&
          !StdAtomics::CompareExchange(word_, expected, kWaitedFor,
                                       std::memory_order_relaxed)) {
        continue;
      }
      KernelFutex::Wait(word_, kWaitedFor, deadline);
    }
  }

  void Unlock() ABSL_UNLOCK_FUNCTION() {
    uint32_t expected = kHeld;
    if (StdAtomics::CompareExchange(word_, expected, kFree,
                                    std::memory_order_release)) [[likely]] {
      return;
    }
    StdAtomics::Store(word_, kFree, std::memory_order_release);
    KernelFutex::Wake(word_, 1);
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kWaitedFor = 2;

  SharedWord<uint32_t> word_{kFree};
};

class ABSL_SCOPED_LOCKABLE TimedMutexLock {
 public:
  // Waits until `deadline`.
  TimedMutexLock(TimedMutex* mutex, Deadline deadline)
      ABSL_LOCKS_EXCLUDED(mutex)
      : mutex_(mutex->Lock(deadline) ? mutex : nullptr) {}
  // Waits for as long as it takes: the mutex is held.
  explicit TimedMutexLock(TimedMutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex->Lock(Deadline::Never());
  }
  ~TimedMutexLock() ABSL_UNLOCK_FUNCTION() {
    if (mutex_ != nullptr) mutex_->Unlock();
  }
  TimedMutexLock(const TimedMutexLock&) = delete;
  TimedMutexLock& operator=(const TimedMutexLock&) = delete;

  // In clang's analysis the mutex is held in the branch where this is true.
  bool held() const ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return mutex_ != nullptr;
  }

 private:
  TimedMutex* const mutex_;
};

}  // namespace tenon

#endif  // TENON_IPC_DOORBELL_TIMED_MUTEX_H_
