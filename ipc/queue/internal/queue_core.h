// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueCore: a queue of items that are just bytes. Internal to Queue<T>
// (queue.h) and to others that put something into queues, such as tensors,
// which need more: to do something between the copy of an item and its taking,
// and to learn what has been taken.
//
//   TENON_ASSIGN_OR_RETURN(auto queue,
//                          QueueCore::Create(type, bytes, options));
//   TENON_RETURN_IF_ERROR(queue->Put(items, deadline));
//   held.push_back({queue->put() - 1, item});  // Kept until taken() is greater.

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
#include "tenon/ipc/queue/fd_shelf.h"
#include "tenon/ipc/queue/internal/queue_group.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/internal/queue_side.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"

namespace tenon {

struct QueueOptions {
  // In errors, and as the memory's label: see CheckShmPrefix() in shm_name.h.
  std::string name = "queue";
  // Items that each participant may have put and nobody taken. Memory is
  // reserved for all participants at once.
  size_t capacity = 1024;
  // How many take part at once, each Queue object counted; up to 64. Handles
  // have two descriptors for each. A participant that has died does not count.
  size_t max_participants = 8;
  // What a call does that has to wait when all others have left or died: fail
  // with kUnavailable, or wait for new participants until its deadline.
  bool wait_when_alone = false;
};

// An item that is about to be taken, or has been.
struct QueueItem {
  std::span<const std::byte> bytes;  // A copy.
  size_t place = 0;                  // Of who put it.
  uint64_t position = 0;             // Among all that was put at that place.
};

// What a getter does for each item before it takes it: then a getter that is
// killed in between has taken nothing, and has claimed what dies with it.
class QueueClaimer {
 public:
  virtual ~QueueClaimer() = default;

  // `item` is whole, and at this moment still there. Called in the order of the
  // items, for all that one call takes.
  // Errors: kDataLoss if the item is good for nobody: it is taken off, and the
  // call returns the error. After another error it stays there, and the call
  // returns that. If somebody else was faster the error is forgotten.
  virtual absl::Status Claim(const QueueItem& item) = 0;
  // Somebody else was faster: undoes a Claim() that was OK.
  virtual void Undo(const QueueItem& item) = 0;
};

// Ownership: owns its memory, its place and descriptors (close-on-exec).
//   Destruction leaves the queue: what was put can still be got.
// Threads: any number may use it. Calls that get take turns, and so do those
//   that put; a call that waits for its turn does so until its deadline.
// Processes: each has a QueueCore of its own. Inert in a forked child: calls
//   fail with kFailedPrecondition; the child opens its own from a handle.
// Trust: for groups that trust each other: each may write all of the memory.
//   Words that cannot be are kDataLoss, and none lead out of it.
// Failure: what fails puts and takes nothing.
class QueueCore {
 public:
  // Errors: kInvalidArgument for sizes that cannot be; kResourceExhausted
  // naming the limit (memory, descriptors).
  static absl::StatusOr<std::unique_ptr<QueueCore>> Create(
      QueueType type, size_t item_bytes, const QueueOptions& options);
  // Joins the queue of a handle. Errors: kInvalidArgument if it is none, or one
  // of another type or size; kFailedPrecondition for another version,
  // or if its maker could call membarrier() and this process may not;
  // kResourceExhausted if all slots have living participants, or at a limit.
  // After an error the handle is whole, and can be opened later.
  static absl::StatusOr<std::unique_ptr<QueueCore>> Open(QueueHandle&& handle,
                                                         QueueType type,
                                                         size_t item_bytes);
  ~QueueCore();
  QueueCore(const QueueCore&) = delete;
  QueueCore& operator=(const QueueCore&) = delete;

  // For one more participant. Errors: kResourceExhausted.
  absl::StatusOr<QueueHandle> Share() const;

  // Puts all of `items`, one or more, at most the capacity, in their order; all
  // can be seen at once. Waits for room until `deadline`. Errors:
  //   kDeadlineExceeded    there was no room
  //   kFailedPrecondition  the queue is closed
  //   kUnavailable         there is no room, and all others have left or died
  //   kInvalidArgument     not a whole number of items, or too many
  //   kDataLoss            the memory says what cannot be
  absl::Status Put(std::span<const std::byte> items, Deadline deadline);
  // The same without waiting: false if there is no room (or another thread of
  // this process is putting).
  absl::StatusOr<bool> TryPut(std::span<const std::byte> items);

  // Takes as many items as there are and fit into `out`, at least one, and at
  // most those of one participant; returns how many. Waits for the first until
  // `deadline`. Items of one participant come in their order. Errors, none of
  // them sticky:
  //   kDeadlineExceeded  nothing came
  //   kUnavailable       nothing is there, and the queue is closed, or all
  //                      others have left or died; before anybody else has
  //                      joined it waits
  //   kInvalidArgument   there is no room for one item
  //   kDataLoss          the memory says what cannot be
  //   those of `claimer`
  absl::StatusOr<size_t> Get(std::span<std::byte> out, Deadline deadline,
                             QueueClaimer* claimer = nullptr);
  // The same without waiting: 0 if nothing is there. Does not notice deaths.
  absl::StatusOr<size_t> TryGet(std::span<std::byte> out,
                                QueueClaimer* claimer = nullptr);

  // Nothing more is put, by anybody: wakes all who wait. What a Put() at the
  // same time puts may still be got. May be repeated.
  absl::Status Close();
  bool closed() const;

  // Throws away what is there now; returns how much.
  // Does not wait for threads that get.
  absl::StatusOr<uint64_t> Drain();

  // How many items are there: of all, of one's own; a moment ago.
  uint64_t size() const;
  uint64_t own_size() const { return SizeOf(group_->own()); }
  size_t item_bytes() const { return group_->kind().item_bytes; }
  size_t capacity() const { return group_->kind().capacity; }

  // How many items have ever been put at one's own place, by this and by those
  // who had it before; the next has this position. And up to which position
  // they were taken: whoever took them has claimed them by then.
  uint64_t put() const;
  uint64_t taken() const;

  // Whether there were others, and all have left or died. One system call.
  absl::StatusOr<bool> IsAlone();

  // One's slot, which holder of it this is, and descriptors laid out beside it:
  // up to FdShelf::kMaxFds - 4. They outlive their holder: the next one keeps
  // them until all that was put before it is taken, and LayOut() is
  // kResourceExhausted until then. The holder of the slot is `generation`.
  size_t place() const { return group_->own(); }
  uint64_t generation() const { return group_->generation(); }
  absl::Status LayOut(absl::string_view bytes, absl::Span<const int> fds);
  absl::StatusOr<ShelfItem> TakeFrom(size_t place, uint64_t* generation) const;

  // --- For event loops, see doorbell.h: for an item or the end (kGet), or for
  // room for an item (kPut). While one thread does this, no other one gets, or
  // puts: if one does, PollFd() and Arm() fail with kFailedPrecondition, and
  // Disarm() does nothing. ---
  absl::StatusOr<int> PollFd(QueueWait wait = QueueWait::kGet);
  absl::StatusOr<bool> Arm(QueueWait wait = QueueWait::kGet);
  void Disarm(QueueWait wait = QueueWait::kGet);

  // --- Tasks: what was got counts as begun until it is done. ---

  // Errors: kFailedPrecondition if so many have not been begun here.
  absl::Status TaskDone(uint64_t count);
  // Waits until nothing is there and no living participant has a task that is
  // not done. Errors: kDeadlineExceeded; kUnavailable as Get(); kAborted naming
  // how many tasks died with their processes, now and in later calls.
  absl::Status JoinTasks(Deadline deadline);

  // Whether a thread of this participant sleeps for that. Any thread may ask.
  bool IsAsleep(QueueWait wait) const;

  // While no other thread uses it:
  DoorbellCounts get_counts() const { return get_.bell()->counts(); }
  DoorbellCounts put_counts() const { return put_.bell()->counts(); }
  // System calls that woke somebody.
  uint64_t put_rings() const { return put_.rings(); }
  uint64_t get_rings() const { return get_.rings(); }

 private:
  QueueCore(std::unique_ptr<QueueGroup> group, std::string what);
  static absl::StatusOr<std::unique_ptr<QueueCore>> Join(
      std::unique_ptr<QueueGroup>& group, std::string what);

  absl::Status CheckUsable() const {
    return CheckNotForked(fork_count_, what_);
  }
  absl::Status TurnIsTaken(absl::string_view doing) const;
  absl::Status InUse(absl::string_view call, QueueWait wait) const;
  absl::Status Garbage(size_t place) const;
  uint64_t SizeOf(size_t place) const;

  absl::StatusOr<uint64_t> Count(std::span<const std::byte> items) const;
  absl::StatusOr<bool> PutNow(std::span<const std::byte> items, uint64_t count);

  bool SomethingIsThere() const;
  bool RoomOrEnd(uint64_t count) {
    return !writer_.Refresh() || writer_.KnowsRoom(count) || closed();
  }
  absl::StatusOr<size_t> TakeSome(std::span<std::byte> out,
                                  QueueClaimer* claimer);
  absl::StatusOr<size_t> TakeFromRing(size_t place, std::span<std::byte> out,
                                      QueueClaimer* claimer);
  absl::Status ClaimAll(size_t place, std::span<const std::byte> copied,
                        QueueClaimer* claimer, size_t* claimed);
  absl::StatusOr<size_t> ClaimCopied(size_t place,
                                     std::span<const std::byte> copied,
                                     QueueClaimer* claimer);
  void UndoAll(size_t place, std::span<const std::byte> copied,
               QueueClaimer* claimer);
  bool TakeAndRing(size_t place, uint64_t count);
  bool Is(QueueType type) const;
  // Whether what was put at `place` is not for this one.
  bool Skips(size_t place) const;

  bool IsQuiet(QueueSide& side) const;
  absl::Status Tally() const;

  QueueSlots<> SlotsOf(size_t place) const;
  QueueTaker<> MakeTaker(size_t place) const;
  QueueSide& SideFor(QueueWait wait) {
    return wait == QueueWait::kPut ? put_ : get_;
  }

  std::unique_ptr<QueueGroup> group_;  // Null: it has not joined.
  const std::string what_;
  QueueSide put_;   // Waits for room, rings getters.
  QueueSide get_;   // Waits for items, rings putters.
  QueueSide join_;  // Waits for the end of tasks.
  QueueSide done_;  // Rings those.
  QueueWriter<> writer_;
  std::vector<QueueTaker<>> takers_;
  size_t next_ = 0;  // The place to look at first.
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_CORE_H_
