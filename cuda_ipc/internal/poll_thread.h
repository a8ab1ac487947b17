// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PollThread: a thread of the process that looks at words of shared memory
// until something has happened. Internal to fences: a device that writes a word
// wakes no thread.

#ifndef TENON_CUDA_IPC_INTERNAL_POLL_THREAD_H_
#define TENON_CUDA_IPC_INTERNAL_POLL_THREAD_H_

#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::cuda_ipc {

// Ownership: owns the tasks. Never destroyed.
// Threads: thread-safe. The thread starts with the first task, has all signals
//   blocked, and sleeps while there is no task.
// Processes: one per process, a forked child too.
class PollThread {
 public:
  static PollThread& OfProcess();

  // Calls `is_done` in the thread until it returns true, at first every 50 us,
  // then less often, at least every 2 ms. It may call the driver, and must not
  // wait. Errors: kResourceExhausted if the thread cannot be started.
  absl::Status Add(std::function<bool()> is_done);

 private:
  absl::Status StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  ThreadMutex mutex_;
  ThreadCondition changed_;
  bool has_thread_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::function<bool()>> added_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_POLL_THREAD_H_
