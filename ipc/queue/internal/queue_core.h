// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueCore: a participant of a queue of items that are plain bytes. Internal
// to ByteQueue (byte_queue.h) and to queues of other things, such as tensors,
// which need two more steps: an action between the copy of an item and its
// taking, and the number of items that have been taken.
//
//   TENON_ASSIGN_OR_RETURN(auto queue,
//                          QueueCore::Create(type, bytes, options));
//   TENON_RETURN_IF_ERROR(queue->Put(items, deadline));
//   held.push_back({queue->put() - 1, item});  // Kept until taken() passes.

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_CORE_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_CORE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_claimer.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_getter.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_putter.h"
#include "tenon/ipc/queue/internal/queue_tasks.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_options.h"
#include "tenon/ipc/queue/queue_stats.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/message.h"

namespace tenon {

// Ownership: owns its memory, its slot and descriptors (close-on-exec).
//   Destruction leaves the queue: items that were put can still be received.
// Threads: thread-safe. Calls that get run one at a time, and so do calls that
//   put; a call waits for the one before it until its deadline.
// Processes: each has a QueueCore of its own. Inert in a forked child: calls
//   fail with kFailedPrecondition; the child opens its own from a handle.
// Trust: for groups that trust each other: each process may write all of the
//   memory. Corrupt control words are kDataLoss and lead to no access outside
//   of the memory.
// Failure: a call that fails puts and takes nothing.
// Memory order: a getter sees everything that the putting thread wrote before
//   Put(). A putter that reads taken() sees everything that the getters of
//   these items did before they took them, Claim() included.
class QueueCore {
 public:
  // Errors: kInvalidArgument for sizes out of range; kResourceExhausted naming
  // the limit (memory, descriptors).
  static absl::StatusOr<std::unique_ptr<QueueCore>> Create(
      QueueType type, size_t item_bytes, const QueueOptions& options);
  // Joins the queue of a handle. Errors: kInvalidArgument if it is not the
  // handle of a queue of this type and item size; kFailedPrecondition for
  // another layout version, or if this process may not call membarrier() and
  // the queue's creator may; kResourceExhausted if all slots have living
  // participants, or at a limit. After an error the handle is unchanged and can
  // be opened later.
  static absl::StatusOr<std::unique_ptr<QueueCore>> Open(QueueHandle&& handle,
                                                         QueueType type,
                                                         size_t item_bytes);
  ~QueueCore();
  QueueCore(const QueueCore&) = delete;
  QueueCore& operator=(const QueueCore&) = delete;

  // QueueOptions::name of its creator; "queue" if this process cannot find it.
  const std::string& name() const { return context_->name; }

  // A handle for one more participant. Errors: kResourceExhausted.
  absl::StatusOr<QueueHandle> Share() const;

  // Puts all of `items`, at least one and at most the capacity, in their order;
  // they become visible at once. Waits for room until `deadline`. Errors:
  //   kDeadlineExceeded    there was no room
  //   kFailedPrecondition  the queue is closed
  //   kUnavailable         there is no room, and all others have left or died
  //   kInvalidArgument     not a whole number of items, or too many
  // An item of a queue of tensors may be short: put alone, a whole number of
  // 8-byte words, at most 255. Its copies touch only the cache lines that it
  // uses. A claimer receives it as it was put; in `out` of Get() without a
  // claimer, arbitrary bytes follow it.
  //   kDataLoss            the control words are corrupt
  absl::Status Put(std::span<const std::byte> items, Deadline deadline) {
    return putter_.Put(items, deadline);
  }
  // Does not wait: false if there is no room (or another thread of this process
  // is putting).
  absl::StatusOr<bool> TryPut(std::span<const std::byte> items) {
    return putter_.TryPut(items);
  }

  // The same, for a short item of a queue of tensors; without a status: false
  // also if it is none and on any error, and then call TryPut().
  template <size_t kWords>
  [[gnu::always_inline]] bool TryPutWords(
      const std::array<uint64_t, kWords>& item) {
    return putter_.TryPutWords(item);
  }

  // Takes at least one item, at most as many as fit into `out`, all from one
  // participant and in its order; returns their number. Waits for the first
  // item until `deadline`. Errors, none of them sticky:
  //   kDeadlineExceeded  no item came
  //   kOutOfRange        the end: the queue is closed, and all of its items
  //                      have been taken
  //   kUnavailable       the queue is empty, and all others have left or died;
  //                      before the first other participant has joined the call
  //                      waits
  //   kInvalidArgument   `out` is too small for one item
  //   kDataLoss          the control words are corrupt
  //   those of `claimer`
  absl::StatusOr<size_t> Get(std::span<std::byte> out, Deadline deadline,
                             QueueClaimer* claimer = nullptr) {
    return getter_.Get(out, deadline, claimer);
  }
  // Does not wait: 0 if the queue is empty. Does not notice deaths.
  absl::StatusOr<size_t> TryGet(std::span<std::byte> out,
                                QueueClaimer* claimer = nullptr) {
    return getter_.TryGet(out, claimer);
  }

  // The same, if the next item is a short one of `kWords` words, with a claimer
  // that is inlined: see QueueGetter.
  template <size_t kWords, typename Claimer>
  QueueTake TryGetWords(Claimer& claimer) {
    return getter_.TryGetWords<kWords>(claimer);
  }

  // Closes the queue for all participants: Put() fails from now on. Wakes all
  // waiters. The items of a concurrent Put() may still be received. May be
  // repeated.
  absl::Status Close();
  bool closed() const { return context_->closed(); }

  // Discards all queued items; returns their number. Does not wait for threads
  // that get.
  absl::StatusOr<uint64_t> Drain() { return getter_.Drain(); }

  // Snapshots: the number of queued items of all participants, and of this one.
  uint64_t size() const { return context_->size(); }
  uint64_t own_size() const { return context_->SizeOf(slot()); }
  size_t item_bytes() const { return context_->memory.geometry().item_bytes; }
  size_t capacity() const { return context_->memory.geometry().capacity; }

  // The number of items ever put in this slot, by this participant and by
  // former holders of the slot; it is the position of the next item. And the
  // position up to which they were taken: their takers had claimed them by
  // then.
  uint64_t put() const {
    return StdAtomics::Load(context_->memory.at(slot()).head,
                            std::memory_order_acquire);
  }
  uint64_t taken() const {
    return StdAtomics::Load(context_->memory.at(slot()).take,
                            std::memory_order_acquire);
  }

  // Whether all other participants have left or died, and at least one has
  // existed. One system call.
  absl::StatusOr<bool> IsAlone() { return putter_.IsAlone(); }

  // This participant's slot, and descriptors published with a slot: up to
  // FdBoard::kMaxFds - 4. They outlive their publisher: the next holder of the
  // slot keeps them until all former items are taken, and PublishFds() is
  // kResourceExhausted until then. PublishFds() is for one thread at a time.
  size_t slot() const { return context_->membership.slot(); }
  absl::Status PublishFds(absl::string_view bytes, absl::Span<const int> fds);
  absl::StatusOr<Message> ReadFds(size_t slot) const;

  // --- For event loops (doorbell.h): for an item or the end (kGet), or for
  // room for an item (kPut). Meanwhile no other thread may get, or put: if one
  // does, PollFd() and Arm() fail with kFailedPrecondition, and Disarm() does
  // nothing. ---
  absl::StatusOr<int> PollFd(QueueWait wait = QueueWait::kGet) {
    return EndpointFor(wait).PollFd();
  }
  absl::StatusOr<bool> Arm(QueueWait wait = QueueWait::kGet) {
    return wait == QueueWait::kPut ? putter_.Arm() : getter_.Arm();
  }
  void Disarm(QueueWait wait = QueueWait::kGet) { EndpointFor(wait).Disarm(); }

  // --- Tasks: an item that was received is a begun task until it is done. ---

  // Errors: kFailedPrecondition if fewer tasks have been begun here.
  absl::Status TaskDone(uint64_t count) { return tasks_.Done(count); }
  // Waits until the queue is empty and no living participant has an unfinished
  // task. Errors: kDeadlineExceeded; kUnavailable as Get(); kAborted naming how
  // many tasks died with their processes, now and in later calls.
  absl::Status JoinTasks(Deadline deadline) { return tasks_.Join(deadline); }

  // Thread-safe.
  QueueStats stats() const;

 private:
  explicit QueueCore(std::unique_ptr<QueueContext> context);
  static absl::StatusOr<std::unique_ptr<QueueCore>> Join(
      std::unique_ptr<QueueContext>& context);

  absl::Status JoinWithBells();
  bool IsAsleep(QueueWait wait) const;
  QueueEndpoint& EndpointFor(QueueWait wait) {
    return wait == QueueWait::kPut ? putter_.endpoint() : getter_.endpoint();
  }

  std::unique_ptr<QueueContext> context_;  // Null: has not joined.
  QueuePutter putter_;
  QueueTasks tasks_;
  QueueGetter getter_;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_CORE_H_
