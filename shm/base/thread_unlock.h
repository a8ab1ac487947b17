// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ThreadUnlock: a part of a locked scope in which the mutex is released.
//
//   void Queue::SendAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
//     while (!messages_.empty()) {
//       Message message = PopFront();
//       const ThreadUnlock unlocked(&mutex_);
//       Send(std::move(message));
//     }
//   }

#ifndef TENON_SHM_BASE_THREAD_UNLOCK_H_
#define TENON_SHM_BASE_THREAD_UNLOCK_H_

#include "absl/base/attributes.h"
#include "absl/base/thread_annotations.h"
#include "tenon/shm/base/thread_mutex.h"

// After ABSL_UNLOCK_FUNCTION() in a constructor, the analysis would not know
// that the destructor acquires the mutex again.
#if ABSL_HAVE_ATTRIBUTE(release_capability)
#define TENON_RELEASES(mutex) __attribute__((release_capability(mutex)))
#else
#define TENON_RELEASES(mutex)
#endif

namespace tenon {

// Releases a mutex that the calling thread holds, and acquires it again at its
// destruction, also when an exception leaves the scope.
class ABSL_SCOPED_LOCKABLE [[nodiscard]] ThreadUnlock {
 public:
  explicit ThreadUnlock(ThreadMutex* mutex) TENON_RELEASES(mutex)
      : mutex_(mutex) {
    mutex_->Unlock();
  }
  ~ThreadUnlock() ABSL_UNLOCK_FUNCTION() { mutex_->Lock(); }
  ThreadUnlock(const ThreadUnlock&) = delete;
  ThreadUnlock& operator=(const ThreadUnlock&) = delete;

 private:
  ThreadMutex* const mutex_;
};

}  // namespace tenon

#undef TENON_RELEASES

#endif  // TENON_SHM_BASE_THREAD_UNLOCK_H_
