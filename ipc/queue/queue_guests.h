// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueGuests: processes that were given a handle of a queue and may not have
// opened it yet. A participant that is alone learns by them whether another one
// may come. Internal to queues and to //spawn.

#ifndef TENON_IPC_QUEUE_QUEUE_GUESTS_H_
#define TENON_IPC_QUEUE_QUEUE_GUESTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// Ownership: owns a descriptor for each guest that has neither ended nor been
//   removed; shared by a participant and the handles that it made.
// Threads: thread-safe.
// Processes: a forked child does not use it.
class QueueGuests {
 public:
  QueueGuests() = default;
  QueueGuests(const QueueGuests&) = delete;
  QueueGuests& operator=(const QueueGuests&) = delete;

  // `end_fd`, still the caller's, is readable once process `pid` has ended; a
  // duplicate is kept. At the limit of descriptors the process is not added:
  // calls then wait for it until their deadline.
  void Add(pid_t pid, int end_fd);

  // Between these two calls a handle is in arguments from which a process may
  // yet open the queue, such as those of a task that has not been answered.
  void Announce();
  void Withdraw();

  // If there were guests, all have ended and none is announced: "process 4711
  // ended before it opened the queue". Otherwise empty. Does not block.
  std::string DescribeEnd();

  // Whether one is announced, or a guest has neither ended nor been removed and
  // fewer participants have joined, which is `joins`, than there have been
  // guests. Does not block.
  bool MayCome(uint64_t joins);

  // Process `pid` has opened the queue: a participant, and no guest any more.
  void Remove(pid_t pid);

 private:
  struct Guest {
    pid_t pid;
    UniqueFd end;
  };

  void ForgetEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ThreadMutex mutex_;
  std::vector<Guest> living_ ABSL_GUARDED_BY(mutex_);
  uint64_t added_ ABSL_GUARDED_BY(mutex_) = 0;
  pid_t last_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t ended_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t announced_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_GUESTS_H_
