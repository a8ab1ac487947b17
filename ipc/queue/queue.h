// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Queue<T>: items from any number of processes to any number of processes
// through shared memory. Each item is received by exactly one process. No
// system calls while producers and consumers keep up.
//
//   TENON_ASSIGN_OR_RETURN(auto queue, Queue<Job>::Create({.capacity = 64}));
//   TENON_ASSIGN_OR_RETURN(QueueHandle handle, queue.Share());
//   // The handle goes to another process (queue_channel.h), which does
//   TENON_ASSIGN_OR_RETURN(auto theirs, Queue<Job>::Open(std::move(handle)));
//   TENON_RETURN_IF_ERROR(theirs.Put(job, deadline));
//
//   TENON_ASSIGN_OR_RETURN(Job job, queue.Get(deadline));
//
// Each participant puts into a ring of its own and takes from the rings of all
// participants. Order and capacity are therefore those of one participant: the
// items of one participant are received in the order in which it put them;
// items of two participants have no order among each other. A participant that
// joins may inherit the ring of a dead participant, whose remaining items then
// come first.
//
// A participant that is killed, at any instruction, blocks no other: an item
// that it was about to put is not in the queue, items that it had put stay in
// the queue, and items that it had taken are lost with it.
//
// Memory order: Get() of an item sees everything that the putting thread wrote
//   before Put(), in the item and in any other shared memory.

#ifndef TENON_IPC_QUEUE_QUEUE_H_
#define TENON_IPC_QUEUE_QUEUE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/byte_queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_options.h"
#include "tenon/ipc/queue/queue_stats.h"
#include "tenon/ipc/queue/queue_value.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Ownership, threads, processes, trust and failure are those of ByteQueue
// (byte_queue.h). In short: any number of threads may use one object; each
// process opens its own, a forked child too; all participants trust each other.
// The process that creates a queue for others keeps it until they have opened
// theirs: a participant that is left alone gets kUnavailable, unless
// QueueOptions::wait_when_alone is set. One that is an argument of Start()
// (//spawn) is not alone before the processes that were started with it have
// opened theirs, or have ended.
template <QueueValue T>
class Queue {
 public:
  // Errors: kInvalidArgument for a capacity or number of participants out of
  // range; kResourceExhausted naming the limit (memory, descriptors).
  static absl::StatusOr<Queue> Create(const QueueOptions& options = {}) {
    return Wrap(ByteQueue::Create(QueueType::kItems, sizeof(T), options));
  }
  // Errors: kInvalidArgument if the handle is not that of a Queue<T>;
  // kFailedPrecondition if the queue has another layout version, or if this
  // process may not call membarrier() and its creator may; kResourceExhausted
  // if all slots have living participants, or naming the limit. After an error
  // the handle is unchanged and can be opened later.
  static absl::StatusOr<Queue> Open(QueueHandle&& handle) {
    return Wrap(
        ByteQueue::Open(std::move(handle), QueueType::kItems, sizeof(T)));
  }

  Queue(Queue&&) = default;
  Queue& operator=(Queue&&) = default;

  // A handle for one more participant. Errors: kResourceExhausted.
  absl::StatusOr<QueueHandle> Share() const { return queue_.Share(); }

  // Puts an item; waits for room until `deadline`. Errors: kDeadlineExceeded if
  // there was no room; kFailedPrecondition if the queue is closed; kUnavailable
  // if it is full and all other participants have left or died.
  absl::Status Put(const T& item, Deadline deadline) {
    return queue_.Put(BytesOf({&item, 1}), deadline);
  }
  // Does not wait: false if there is no room.
  absl::StatusOr<bool> TryPut(const T& item) {
    return queue_.TryPut(BytesOf({&item, 1}));
  }
  // Puts all of `items` or none of them: at least one, at most the capacity.
  absl::Status PutBatch(std::span<const T> items, Deadline deadline) {
    return queue_.Put(BytesOf(items), deadline);
  }

  // Takes an item; waits for one until `deadline`. Errors: kDeadlineExceeded if
  // none came; kOutOfRange at the end: the queue is closed, and all items have
  // been taken; kUnavailable if it is empty and all other participants have
  // left or died.
  absl::StatusOr<T> Get(Deadline deadline) {
    std::array<std::byte, sizeof(T)> bytes;
    const absl::StatusOr<size_t> got = queue_.Get(bytes, deadline);
    if (!got.ok()) return got.status();
    return std::bit_cast<T>(bytes);
  }
  // Does not wait: nullopt if the queue is empty. Does not notice deaths.
  absl::StatusOr<std::optional<T>> TryGet() {
    std::array<std::byte, sizeof(T)> bytes;
    const absl::StatusOr<size_t> got = queue_.TryGet(bytes);
    if (!got.ok()) return got.status();
    if (*got == 0) return std::optional<T>();
    return std::optional<T>(std::bit_cast<T>(bytes));
  }
  // Takes at least one item, at most as many as fit into `out`, all from one
  // participant; returns their number.
  absl::StatusOr<size_t> GetBatch(std::span<T> out, Deadline deadline) {
    return queue_.Get(std::as_writable_bytes(out), deadline);
  }

  // Closes the queue for all participants: Put() fails from now on. Queued
  // items can still be received; after them Get() returns kOutOfRange. Wakes
  // all waiters.
  absl::Status Close() { return queue_.Close(); }
  bool closed() const { return queue_.closed(); }
  // Discards all queued items; returns their number.
  absl::StatusOr<uint64_t> Drain() { return queue_.Drain(); }

  // Snapshots: the number of queued items, and of those that this participant
  // has put. full() is whether this participant would have to wait for room.
  uint64_t size() const { return queue_.size(); }
  uint64_t own_size() const { return queue_.own_size(); }
  bool empty() const { return queue_.size() == 0; }
  bool full() const { return queue_.own_size() == queue_.capacity(); }
  size_t capacity() const { return queue_.capacity(); }

  // For event loops (doorbell.h): readable when there is an item, or at the
  // end. After Disarm() call Get() with Deadline::Passed() until it returns
  // kDeadlineExceeded.
  absl::StatusOr<int> PollFd() { return queue_.PollFd(); }
  absl::StatusOr<bool> Arm() { return queue_.Arm(); }
  void Disarm() { queue_.Disarm(); }

  // For reports: this participant's system calls. Thread-safe.
  QueueStats stats() const { return queue_.stats(); }

 private:
  explicit Queue(ByteQueue queue) : queue_(std::move(queue)) {}

  static absl::StatusOr<Queue> Wrap(absl::StatusOr<ByteQueue> queue) {
    if (!queue.ok()) return queue.status();
    return Queue(*std::move(queue));
  }
  static std::span<const std::byte> BytesOf(std::span<const T> items) {
    return std::as_bytes(items);
  }

  ByteQueue queue_;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_H_
