// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// JoinableQueue<T>: a queue of tasks whose completion can be awaited.
//
//   // A worker:
//   TENON_ASSIGN_OR_RETURN(Task task, queue.Get(deadline));
//   Work(task);                                  // May put more tasks.
//   TENON_RETURN_IF_ERROR(queue.TaskDone());
//
//   // The process that put them:
//   TENON_RETURN_IF_ERROR(queue.Join(deadline));

#ifndef TENON_IPC_QUEUE_JOINABLE_QUEUE_H_
#define TENON_IPC_QUEUE_JOINABLE_QUEUE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/byte_queue.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_options.h"
#include "tenon/ipc/queue/queue_stats.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Ownership, threads, processes, trust, failure and memory order: as Queue<T>
// (queue.h), whose functions have the same meaning here. A task that was
// received belongs to the process that received it, and dies with it.
template <QueueValue T>
class JoinableQueue {
 public:
  static absl::StatusOr<JoinableQueue> Create(
      const QueueOptions& options = {}) {
    return Wrap(ByteQueue::Create(QueueType::kTasks, sizeof(T), options));
  }
  static absl::StatusOr<JoinableQueue> Open(QueueHandle&& handle) {
    return Wrap(
        ByteQueue::Open(std::move(handle), QueueType::kTasks, sizeof(T)));
  }
  absl::StatusOr<QueueHandle> Share() const { return queue_.Share(); }

  absl::Status Put(const T& task, Deadline deadline) {
    return queue_.Put(std::as_bytes(std::span(&task, 1)), deadline);
  }
  absl::StatusOr<T> Get(Deadline deadline) {
    std::array<std::byte, sizeof(T)> bytes;
    const absl::StatusOr<size_t> got = queue_.Get(bytes, deadline);
    if (!got.ok()) return got.status();
    return std::bit_cast<T>(bytes);
  }
  absl::Status Close() { return queue_.Close(); }
  bool closed() const { return queue_.closed(); }
  uint64_t size() const { return queue_.size(); }
  bool empty() const { return queue_.size() == 0; }
  QueueStats stats() const { return queue_.stats(); }

  // `count` tasks that any thread of this participant received are done.
  // Errors: kFailedPrecondition if fewer were received.
  absl::Status TaskDone(uint64_t count = 1) { return queue_.TaskDone(count); }

  // Waits until all tasks, including those put meanwhile, are done or have died
  // with the processes that received them. Errors: kDeadlineExceeded;
  // kUnavailable if tasks are queued, all other participants have left or died,
  // and no task is unfinished here; kAborted, naming how many, if some have
  // died, from then on.
  absl::Status Join(Deadline deadline) { return queue_.JoinTasks(deadline); }

 private:
  explicit JoinableQueue(ByteQueue queue) : queue_(std::move(queue)) {}
  static absl::StatusOr<JoinableQueue> Wrap(absl::StatusOr<ByteQueue> queue) {
    if (!queue.ok()) return queue.status();
    return JoinableQueue(*std::move(queue));
  }

  ByteQueue queue_;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_JOINABLE_QUEUE_H_
