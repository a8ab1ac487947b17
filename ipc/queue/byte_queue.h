// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ByteQueue: a queue of items that are plain bytes of one size. Queue<T>
// (queue.h) and its other forms are typed views of it, which most code wants.
//
//   TENON_ASSIGN_OR_RETURN(
//       auto queue, ByteQueue::Create(QueueType::kItems, record.size(), {}));
//   TENON_RETURN_IF_ERROR(queue.Put(record, deadline));

#ifndef TENON_IPC_QUEUE_BYTE_QUEUE_H_
#define TENON_IPC_QUEUE_BYTE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_options.h"
#include "tenon/ipc/queue/queue_stats.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

class QueueCore;

// Ownership: owns its memory, its slot and descriptors (close-on-exec).
//   Destruction leaves the queue: items that were put can still be received.
// Threads: thread-safe. Calls that get run one at a time, and so do calls that
//   put; a call waits for the one before it until its deadline.
// Processes: each opens its own, a forked child too; inert in a forked child:
//   calls fail with kFailedPrecondition.
// Trust: for groups that trust each other: each process may write all of the
//   memory. Corrupt control words are kDataLoss and lead to no access outside
//   of the memory.
// Failure: a call that fails puts and takes nothing.
// Memory order: a getter sees everything that the putting thread wrote before
//   Put().
class ByteQueue {
 public:
  // Errors: kInvalidArgument for sizes out of range, or kTensors;
  // kResourceExhausted naming the limit (memory, descriptors).
  static absl::StatusOr<ByteQueue> Create(QueueType type, size_t item_bytes,
                                          const QueueOptions& options);
  // Joins the queue of a handle. Errors: kInvalidArgument if it is not the
  // handle of a queue of this type and item size, or kTensors is requested;
  // kFailedPrecondition for another layout version, or if this process may not
  // call membarrier() and the queue's creator may; kResourceExhausted if all
  // slots have living participants, or at a limit. After an error the handle is
  // unchanged and can be opened later.
  static absl::StatusOr<ByteQueue> Open(QueueHandle&& handle, QueueType type,
                                        size_t item_bytes);
  ByteQueue(ByteQueue&&) noexcept;
  ByteQueue& operator=(ByteQueue&&) noexcept;
  ~ByteQueue();

  // A handle for one more participant. Errors: kResourceExhausted.
  absl::StatusOr<QueueHandle> Share() const;

  // Puts all of `items`, at least one and at most the capacity, in their order;
  // they become visible at once. Waits for room until `deadline`. Errors:
  //   kDeadlineExceeded    there was no room
  //   kFailedPrecondition  the queue is closed
  //   kUnavailable         there is no room, and all others have left or died;
  //                        with kPipe, the other end has, with room or without
  //   kInvalidArgument     not a whole number of items, or too many
  //   kDataLoss            the control words are corrupt
  absl::Status Put(std::span<const std::byte> items, Deadline deadline);
  // Does not wait: false if there is no room (or another thread of this process
  // is putting).
  absl::StatusOr<bool> TryPut(std::span<const std::byte> items);

  // Takes at least one item, at most as many as fit into `out`, all from one
  // participant and in its order; returns their number. With kPipe these are
  // the items of the other end. Waits for the first item until `deadline`.
  // Errors, none of them sticky:
  //   kDeadlineExceeded  no item came
  //   kOutOfRange        the end: the queue is closed, and all of its items
  //                      have been taken
  //   kUnavailable       the queue is empty, and all others have left or died;
  //                      before the first other participant has joined the call
  //                      waits
  //   kInvalidArgument   `out` is too small for one item
  //   kDataLoss          the control words are corrupt
  absl::StatusOr<size_t> Get(std::span<std::byte> out, Deadline deadline);
  // Does not wait: 0 if the queue is empty. Does not notice deaths.
  absl::StatusOr<size_t> TryGet(std::span<std::byte> out);

  // Closes the queue for all participants: Put() fails from now on. Wakes all
  // waiters. The items of a concurrent Put() may still be received. May be
  // repeated.
  absl::Status Close();
  bool closed() const;
  // Discards all queued items; returns their number. Does not wait for threads
  // that get. Errors: kFailedPrecondition with kTasks; kDataLoss if the control
  // words are corrupt.
  absl::StatusOr<uint64_t> Drain();

  // Snapshots: the number of queued items of all participants, and of this one.
  uint64_t size() const;
  uint64_t own_size() const;
  size_t capacity() const;
  QueueStats stats() const;

  // For event loops (doorbell.h): for an item or the end. Meanwhile no other
  // thread may get: if one does, PollFd() and Arm() fail with
  // kFailedPrecondition, and Disarm() does nothing.
  absl::StatusOr<int> PollFd();
  absl::StatusOr<bool> Arm();
  void Disarm();

  // With kTasks, an item that was received is a begun task until it is done.
  // TaskDone() errors: kFailedPrecondition if fewer tasks have been begun here.
  absl::Status TaskDone(uint64_t count);
  // Waits until the queue is empty and no living participant has an unfinished
  // task. Errors: kDeadlineExceeded; kUnavailable as Get(); kAborted naming how
  // many tasks died with their processes, now and in later calls.
  absl::Status JoinTasks(Deadline deadline);

 private:
  explicit ByteQueue(std::unique_ptr<QueueCore> core);

  std::unique_ptr<QueueCore> core_;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_BYTE_QUEUE_H_
