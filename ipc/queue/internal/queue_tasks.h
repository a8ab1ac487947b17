// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueTasks: counts the items of a queue that were received and are not done,
// and waits for their end. Internal to JoinableQueue (joinable_queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_TASKS_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_TASKS_H_

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Ownership: the context is the caller's and outlives it.
// Threads: thread-safe.
class QueueTasks {
 public:
  explicit QueueTasks(QueueContext* context)
      : context_(*context),
        join_(context, QueueWait::kJoin),
        done_(context, QueueWait::kJoin) {}

  // This participant is about to take `count` tasks. Then Took(), or Undo() if
  // another one took them first.
  void Begin(uint64_t count);
  void Took(uint64_t count) {
    unfinished_.fetch_add(count, std::memory_order_relaxed);
  }
  void Undo(uint64_t count);

  // QueueCore::TaskDone() and JoinTasks().
  absl::Status Done(uint64_t count);
  absl::Status Join(Deadline deadline);

  // Waits for the end of tasks.
  QueueEndpoint& endpoint() { return join_; }

 private:
  QueueParticipant& own() const {
    return context_.memory.at(context_.membership.slot());
  }
  bool IsQuiet() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(join_.mutex());
  bool CountIfEmpty(uint64_t* put) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(join_.mutex());
  absl::Status CheckAllDone() const;

  QueueContext& context_;
  QueueEndpoint join_;
  QueueEndpoint done_;  // Rings waiters for the end of tasks.
  // Taken and not done: `begun` also counts tasks that are about to be taken.
  std::atomic<uint64_t> unfinished_ = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_TASKS_H_
