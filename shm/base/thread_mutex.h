// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ThreadMutex: a lock between the threads of one process, known to clang's
// thread safety analysis.
//
//   class Counter {
//    public:
//     void Add(int n) {
//       const ThreadLock lock(&mutex_);
//       total_ += n;
//     }
//
//    private:
//     ThreadMutex mutex_;
//     int total_ ABSL_GUARDED_BY(mutex_) = 0;
//   };
//
// An access to `total_` without the lock fails to compile with --config=asan
// and --config=tsan, which build with clang. The analysis does not know that a
// lambda runs under its caller's lock: write a loop around Wait(), not a
// predicate.

#ifndef TENON_SHM_BASE_THREAD_MUTEX_H_
#define TENON_SHM_BASE_THREAD_MUTEX_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// std::mutex with annotations. (absl::Mutex has them too, but ThreadSanitizer
// does not see the synchronization of an Abseil that was built without it.)
// Threads: any. Processes: one; a child forked while another thread holds it
// finds it locked for ever. Failure: cannot fail; not recursive.
class ABSL_LOCKABLE ThreadMutex {
 public:
  constexpr ThreadMutex() = default;
  ThreadMutex(const ThreadMutex&) = delete;
  ThreadMutex& operator=(const ThreadMutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // Acquires the mutex and returns true if no thread holds it.
  [[nodiscard]] bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) {
    return mutex_.try_lock();
  }

 private:
  friend class ThreadCondition;

  std::mutex mutex_;
};

// Holds a mutex from its construction to its destruction.
class ABSL_SCOPED_LOCKABLE [[nodiscard]] ThreadLock {
 public:
  explicit ThreadLock(ThreadMutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_->Lock();
  }
  // The calling thread has acquired it, by TryLock().
  ThreadLock(ThreadMutex* mutex, std::adopt_lock_t)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex)
      : mutex_(mutex) {}
  ~ThreadLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  ThreadLock(const ThreadLock&) = delete;
  ThreadLock& operator=(const ThreadLock&) = delete;

 private:
  ThreadMutex* const mutex_;
};

// std::condition_variable for a ThreadMutex.
class ThreadCondition {
 public:
  ThreadCondition() = default;
  ThreadCondition(const ThreadCondition&) = delete;
  ThreadCondition& operator=(const ThreadCondition&) = delete;

  // Each releases `mutex` while it waits, and may return without a
  // notification.
  void Wait(ThreadMutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    condition_.wait(lock);
    static_cast<void>(lock.release());
  }
  // False once `deadline` has passed; time_point::max() never passes.
  bool WaitUntil(ThreadMutex* mutex,
                 std::chrono::steady_clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (deadline == std::chrono::steady_clock::time_point::max()) {
      Wait(mutex);
      return true;
    }
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, deadline);
    static_cast<void>(lock.release());
    return status == std::cv_status::no_timeout;
  }
  // Waits for `at_most`, and never longer than a day.
  void WaitFor(ThreadMutex* mutex, absl::Duration at_most)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const absl::Duration wait = std::min(at_most, absl::Hours(24));
    WaitUntil(mutex, std::chrono::steady_clock::now() +
                         absl::ToChronoNanoseconds(wait));
  }

  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tenon

#endif  // TENON_SHM_BASE_THREAD_MUTEX_H_
