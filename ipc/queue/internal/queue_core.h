// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueCore: a queue of items that are plain bytes. Internal to Queue<T>
// (queue.h) and to queues of other things, such as tensors, which need two more
// steps: an action between the copy of an item and its taking, and the number
// of items that have been taken.
//
//   TENON_ASSIGN_OR_RETURN(auto queue,
//                          QueueCore::Create(type, bytes, options));
//   TENON_RETURN_IF_ERROR(queue->Put(items, deadline));
//   held.push_back({queue->put() - 1, item});  // Kept until taken() passes.

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_CORE_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_CORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_group.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"

namespace tenon {

struct QueueOptions {
  // In errors, and as the memory's label: see CheckShmPrefix() in shm_name.h.
  std::string name = "queue";
  // Items that each participant may have queued. Memory is reserved for all
  // participants at once.
  size_t capacity = 1024;
  // Participants at the same time, each Queue object counted; up to 64. A
  // handle has two descriptors for each. A dead participant does not count.
  size_t max_participants = 8;
  // The behaviour of a call that has to wait when all other participants have
  // left or died: return kUnavailable, or wait for new participants until its
  // deadline.
  bool wait_when_alone = false;
};

// An item that is about to be taken, or has been taken.
struct QueueItem {
  std::span<const std::byte> bytes;  // A copy.
  size_t slot = 0;                   // The slot of its putter.
  uint64_t position = 0;             // Among all items ever put in that slot.
};

// The action of a getter on each item before it takes the item: a getter that
// is killed in between has taken nothing, and its claims die with it.
class QueueClaimer {
 public:
  virtual ~QueueClaimer() = default;

  // `item` is complete, and still in the queue at this moment. Called in the
  // order of the items, for all items of one call.
  // Errors: kDataLoss if no receiver can use the item: it is removed, and the
  // call returns the error. After any other error the item stays in the queue
  // and the call returns the error. If another getter took the item first, the
  // error is discarded.
  virtual absl::Status Claim(const QueueItem& item) = 0;
  // Undoes a successful Claim(): another getter took the item first.
  virtual void Undo(const QueueItem& item) = 0;
};

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

  // A handle for one more participant. Errors: kResourceExhausted.
  absl::StatusOr<QueueHandle> Share() const;

  // Puts all of `items`, at least one and at most the capacity, in their order;
  // they become visible at once. Waits for room until `deadline`. Errors:
  //   kDeadlineExceeded    there was no room
  //   kFailedPrecondition  the queue is closed
  //   kUnavailable         there is no room, and all others have left or died
  //   kInvalidArgument     not a whole number of items, or too many
  //   kDataLoss            the control words are corrupt
  absl::Status Put(std::span<const std::byte> items, Deadline deadline);
  // Does not wait: false if there is no room (or another thread of this process
  // is putting).
  absl::StatusOr<bool> TryPut(std::span<const std::byte> items);

  // Takes at least one item, at most as many as fit into `out`, all from one
  // participant and in its order; returns their number. Waits for the first
  // item until `deadline`. Errors, none of them sticky:
  //   kDeadlineExceeded  no item came
  //   kUnavailable       the queue is empty and closed, or empty and all others
  //                      have left or died; before the first other participant
  //                      has joined the call waits
  //   kInvalidArgument   `out` is too small for one item
  //   kDataLoss          the control words are corrupt
  //   those of `claimer`
  absl::StatusOr<size_t> Get(std::span<std::byte> out, Deadline deadline,
                             QueueClaimer* claimer = nullptr);
  // Does not wait: 0 if the queue is empty. Does not notice deaths.
  absl::StatusOr<size_t> TryGet(std::span<std::byte> out,
                                QueueClaimer* claimer = nullptr);

  // Closes the queue for all participants: Put() fails from now on. Wakes all
  // waiters. The items of a concurrent Put() may still be received. May be
  // repeated.
  absl::Status Close();
  bool closed() const;

  // Discards all queued items; returns their number. Does not wait for threads
  // that get.
  absl::StatusOr<uint64_t> Drain();

  // Snapshots: the number of queued items of all participants, and of this one.
  uint64_t size() const;
  uint64_t own_size() const { return SizeOf(group_->own()); }
  size_t item_bytes() const { return group_->geometry().item_bytes; }
  size_t capacity() const { return group_->geometry().capacity; }

  // The number of items ever put in this slot, by this participant and by
  // former holders of the slot; it is the position of the next item. And the
  // position up to which they were taken: their takers had claimed them by
  // then.
  uint64_t put() const;
  uint64_t taken() const;

  // Whether all other participants have left or died, and at least one has
  // existed. One system call.
  absl::StatusOr<bool> IsAlone();

  // This participant's slot, its generation (the number of the slot's holder),
  // and descriptors published with the slot: up to FdBoard::kMaxFds - 4. They
  // outlive their publisher: the next holder of the slot keeps them until all
  // former items are taken, and PublishFds() is kResourceExhausted until then.
  // ReadFds() returns in `generation` the holder that has published them.
  size_t slot() const { return group_->own(); }
  uint64_t generation() const { return group_->generation(); }
  absl::Status PublishFds(absl::string_view bytes, absl::Span<const int> fds);
  absl::StatusOr<PublishedFds> ReadFds(size_t slot, uint64_t* generation) const;

  // --- For event loops (doorbell.h): for an item or the end (kGet), or for
  // room for an item (kPut). Meanwhile no other thread may get, or put: if one
  // does, PollFd() and Arm() fail with kFailedPrecondition, and Disarm() does
  // nothing. ---
  absl::StatusOr<int> PollFd(QueueWait wait = QueueWait::kGet);
  absl::StatusOr<bool> Arm(QueueWait wait = QueueWait::kGet);
  void Disarm(QueueWait wait = QueueWait::kGet);

  // --- Tasks: an item that was received is a begun task until it is done. ---

  // Errors: kFailedPrecondition if fewer tasks have been begun here.
  absl::Status TaskDone(uint64_t count);
  // Waits until the queue is empty and no living participant has an unfinished
  // task. Errors: kDeadlineExceeded; kUnavailable as Get(); kAborted naming how
  // many tasks died with their processes, now and in later calls.
  absl::Status JoinTasks(Deadline deadline);

  // Whether a thread of this participant sleeps for `wait`. Thread-safe.
  bool IsAsleep(QueueWait wait) const;

  // Only while no other thread uses the queue:
  DoorbellCounts get_counts() const { return get_.bell()->counts(); }
  DoorbellCounts put_counts() const { return put_.bell()->counts(); }
  // System calls that woke a participant.
  uint64_t put_rings() const { return put_.rings(); }
  uint64_t get_rings() const { return get_.rings(); }

 private:
  QueueCore(std::unique_ptr<QueueGroup> group, std::string what);
  static absl::StatusOr<std::unique_ptr<QueueCore>> Join(
      std::unique_ptr<QueueGroup>& group, std::string what);

  absl::Status CheckUsable() const {
    return CheckNotForked(fork_count_, what_);
  }
  absl::Status LockTimedOut(absl::string_view doing) const;
  absl::Status InUse(absl::string_view call, QueueWait wait) const;
  absl::Status CorruptWords(size_t slot) const;
  uint64_t SizeOf(size_t slot) const;

  absl::StatusOr<uint64_t> Count(std::span<const std::byte> items) const;
  absl::StatusOr<bool> PutNow(std::span<const std::byte> items, uint64_t count);

  bool HasReasonToWake() const;
  bool RoomOrEnd(uint64_t count) {
    return !writer_.Refresh() || writer_.KnowsRoom(count) || closed();
  }
  absl::StatusOr<size_t> TakeSome(std::span<std::byte> out,
                                  QueueClaimer* claimer);
  absl::StatusOr<size_t> TakeFromRing(size_t slot, std::span<std::byte> out,
                                      QueueClaimer* claimer);
  absl::Status ClaimAll(size_t slot, std::span<const std::byte> copied,
                        QueueClaimer* claimer, size_t* claimed);
  absl::StatusOr<size_t> ClaimCopied(size_t slot,
                                     std::span<const std::byte> copied,
                                     QueueClaimer* claimer);
  void UndoAll(size_t slot, std::span<const std::byte> copied,
               QueueClaimer* claimer);
  bool TakeAndRing(size_t slot, uint64_t count);
  bool Is(QueueType type) const;
  // Whether the items of `slot` are not for this participant.
  bool Skips(size_t slot) const;

  bool IsQuiet(QueueEndpoint& endpoint) const;
  absl::Status CheckAllDone() const;

  QueueSlots<> SlotsOf(size_t slot) const;
  QueueTaker<> MakeTaker(size_t slot) const;
  QueueEndpoint& EndpointFor(QueueWait wait) {
    return wait == QueueWait::kPut ? put_ : get_;
  }

  std::unique_ptr<QueueGroup> group_;  // Null: has not joined.
  const std::string what_;
  QueueEndpoint put_;   // Waits for room, rings getters.
  QueueEndpoint get_;   // Waits for items, rings putters.
  QueueEndpoint join_;  // Waits for the end of tasks.
  QueueEndpoint done_;  // Rings waiters for the end of tasks.
  QueueWriter<> writer_;
  std::vector<QueueTaker<>> takers_;
  size_t next_ = 0;  // The slot to visit first.
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_CORE_H_
