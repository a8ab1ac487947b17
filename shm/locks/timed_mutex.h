// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TimedMutex: a lock between the threads of one process with deadlines, which
// may be held while its holder waits for other processes. Like ThreadMutex
// (thread_mutex.h) it is known to clang's thread safety analysis.
//
//   TimedMutexLock lock(&mutex, deadline);
//   if (!lock.held()) return absl::DeadlineExceededError("...");
//   ++guarded;

#ifndef TENON_SHM_LOCKS_TIMED_MUTEX_H_
#define TENON_SHM_LOCKS_TIMED_MUTEX_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/locks/biased_lock.h"
#include "tenon/shm/locks/futex.h"

namespace tenon {
namespace timed_mutex_internal {

// Its address is the name of a thread. An address is used again once the thread
// has ended.
alignas(8) inline constinit thread_local char this_thread = 0;

struct System : KernelFutex {
  static bool CanFence();
  static void FenceAll();
};

}  // namespace timed_mutex_internal

// The first thread that locks it does so without locked instructions until a
// second thread wants it: that one pays some microseconds for a fence, once
// (biased_lock.h). From then on, where the kernel does not permit such a fence
// (system_fence.h), and under ThreadSanitizer, each call is one atomic
// operation.
// Threads: any; the thread that has locked unlocks. It may be destroyed once
//   all calls have returned. Not recursive: a thread that holds it waits for
//   itself until its deadline.
// Processes: one. In a forked child it stays locked if another thread of the
//   parent held it.
// Memory order: Unlock() happens before the Lock() that acquires it next.
// Failure: cannot fail.
class ABSL_LOCKABLE TimedMutex {
 public:
  struct KeepBias {};

  TimedMutex() = default;
  TimedMutex(const TimedMutex&) = delete;
  TimedMutex& operator=(const TimedMutex&) = delete;

  // False if it is held until `deadline`. A free one is acquired also if the
  // deadline has passed, unless the first thread is just locking it as well.
  bool Lock(Deadline deadline) ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return lock_.Lock(ThisThread(), deadline);
  }

  // For a thread that can do without: does not wait, and fails where Lock()
  // would take the mutex from the first thread that uses it.
  bool LockKeepingBias() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return lock_.LockKeepingBias(ThisThread(), Deadline::Passed());
  }

  void Unlock() ABSL_UNLOCK_FUNCTION() { lock_.Unlock(ThisThread()); }

 private:
  static uint64_t ThisThread() {
    return reinterpret_cast<uintptr_t>(&timed_mutex_internal::this_thread);
  }

  BiasedLock<StdAtomics, timed_mutex_internal::System> lock_;
};

class ABSL_SCOPED_LOCKABLE TimedMutexLock {
 public:
  // Waits until `deadline`.
  TimedMutexLock(TimedMutex* mutex, Deadline deadline)
      ABSL_LOCKS_EXCLUDED(mutex)
      : mutex_(mutex->Lock(deadline) ? mutex : nullptr) {}
  // As TimedMutex::LockKeepingBias().
  TimedMutexLock(TimedMutex* mutex, TimedMutex::KeepBias)
      ABSL_LOCKS_EXCLUDED(mutex)
      : mutex_(mutex->LockKeepingBias() ? mutex : nullptr) {}
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

#endif  // TENON_SHM_LOCKS_TIMED_MUTEX_H_
