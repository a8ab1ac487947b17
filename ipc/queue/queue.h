// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Queue<T>: items from any number of processes to any number of others, each
// item to one of them, through memory, without system calls while they keep up.
//
//   TENON_ASSIGN_OR_RETURN(auto queue, Queue<Job>::Create({.capacity = 64}));
//   TENON_ASSIGN_OR_RETURN(QueueHandle handle, queue.Share());
//   // The handle goes to another process (queue_channel.h), which does
//   TENON_ASSIGN_OR_RETURN(auto theirs, Queue<Job>::Open(std::move(handle)));
//   TENON_RETURN_IF_ERROR(theirs.Put(job, deadline));
//
//   TENON_ASSIGN_OR_RETURN(Job job, queue.Get(deadline));
//
// Each participant puts into a ring of its own, and takes from all of them. So
// order and capacity are those of one participant: what one has put is got in
// its order, and nothing is said of what two have put. A participant that joins
// may get the ring of a dead one with its items, which come first. Whoever is
// killed, at
// any instruction, keeps nobody back: what it was about to put is not there,
// what it had put is, and what it had taken is gone with it.

#ifndef TENON_IPC_QUEUE_QUEUE_H_
#define TENON_IPC_QUEUE_QUEUE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/value/shared_memory_safe.h"

namespace tenon {

// What can lie in a queue: bytes that mean the same everywhere.
template <typename T>
concept QueueValue = SharedMemorySafe<T> && std::is_trivially_copyable_v<T> &&
    std::is_copy_constructible_v<T>;

// Ownership, threads, processes, trust and failure are those of QueueCore
// (queue_core.h). In short: any number of threads may use one object; each
// process opens its own, a forked child too; a group that trusts each other.
// The creator of a queue for others keeps it until they have opened theirs: a
// participant that is alone, after others, gets kUnavailable, unless
// QueueOptions::wait_when_alone is set.
template <QueueValue T>
class Queue {
 public:
  // Errors: kInvalidArgument for sizes that cannot be; kResourceExhausted
  // naming the limit (memory, descriptors).
  static absl::StatusOr<Queue> Create(const QueueOptions& options = {}) {
    return Wrap(QueueCore::Create(QueueType::kItems, sizeof(T), options));
  }
  // Errors: kInvalidArgument if it is no handle of a Queue<T>;
  // kFailedPrecondition if it is of another version, or this process may not
  // call membarrier(), which its maker could; kResourceExhausted if all
  // slots have living participants, or naming the limit. After an error the
  // handle is whole, and can be opened later.
  static absl::StatusOr<Queue> Open(QueueHandle&& handle) {
    return Wrap(
        QueueCore::Open(std::move(handle), QueueType::kItems, sizeof(T)));
  }

  Queue(Queue&&) = default;
  Queue& operator=(Queue&&) = default;

  // For one more participant. Errors: kResourceExhausted.
  absl::StatusOr<QueueHandle> Share() const { return core_->Share(); }

  // Puts an item; waits for room until `deadline`. Errors:
  // kDeadlineExceeded if there was none; kFailedPrecondition if it is closed;
  // kUnavailable if it is full and all others have left or died.
  absl::Status Put(const T& item, Deadline deadline) {
    return core_->Put(BytesOf({&item, 1}), deadline);
  }
  // Without waiting: false if there is no room.
  absl::StatusOr<bool> TryPut(const T& item) {
    return core_->TryPut(BytesOf({&item, 1}));
  }
  // All of `items`, one or more, at most the capacity, or none of them.
  absl::Status PutBatch(std::span<const T> items, Deadline deadline) {
    return core_->Put(BytesOf(items), deadline);
  }

  // Takes an item; waits for one until `deadline`. Errors:
  // kDeadlineExceeded if there was none; kUnavailable if there is none and the
  // queue is closed, or all others have left or died.
  absl::StatusOr<T> Get(Deadline deadline) {
    std::array<std::byte, sizeof(T)> bytes;
    const absl::StatusOr<size_t> got = core_->Get(bytes, deadline);
    if (!got.ok()) return got.status();
    return std::bit_cast<T>(bytes);
  }
  // Without waiting: none if there is none. Does not notice deaths.
  absl::StatusOr<std::optional<T>> TryGet() {
    std::array<std::byte, sizeof(T)> bytes;
    const absl::StatusOr<size_t> got = core_->TryGet(bytes);
    if (!got.ok()) return got.status();
    if (*got == 0) return std::optional<T>();
    return std::optional<T>(std::bit_cast<T>(bytes));
  }
  // Takes as many as there are, of one participant, and fit into `out`, at
  // least one; returns how many.
  absl::StatusOr<size_t> GetBatch(std::span<T> out, Deadline deadline) {
    return core_->Get(std::as_writable_bytes(out), deadline);
  }

  // Nothing more is put, by anybody; what is there can be got, and then Get()
  // says kUnavailable. Wakes all who wait.
  absl::Status Close() { return core_->Close(); }
  bool closed() const { return core_->closed(); }
  // Throws away what is there now; returns how much.
  absl::StatusOr<uint64_t> Drain() { return core_->Drain(); }

  // A moment ago: how many items were there, and how many of these were put
  // here; full() is whether this participant would have to wait.
  uint64_t size() const { return core_->size(); }
  uint64_t own_size() const { return core_->own_size(); }
  bool empty() const { return core_->size() == 0; }
  bool full() const { return core_->own_size() == core_->capacity(); }
  size_t capacity() const { return core_->capacity(); }

  // For event loops, as in doorbell.h: for an item, or the end. After
  // Disarm(): Get() with Deadline::Passed() until kDeadlineExceeded.
  absl::StatusOr<int> PollFd() { return core_->PollFd(); }
  absl::StatusOr<bool> Arm() { return core_->Arm(); }
  void Disarm() { core_->Disarm(); }

  // For counts and what else is rarely needed.
  QueueCore& core() { return *core_; }

 private:
  explicit Queue(std::unique_ptr<QueueCore> core) : core_(std::move(core)) {}

  static absl::StatusOr<Queue> Wrap(
      absl::StatusOr<std::unique_ptr<QueueCore>> core) {
    if (!core.ok()) return core.status();
    return Queue(*std::move(core));
  }
  static std::span<const std::byte> BytesOf(std::span<const T> items) {
    return std::as_bytes(items);
  }

  std::unique_ptr<QueueCore> core_;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_H_
