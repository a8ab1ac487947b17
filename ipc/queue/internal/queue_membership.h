// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueMembership: the slot of a queue that a participant holds, from joining
// to leaving. Internal to Queue (queue.h).
//
// The memory has a table of slots, one for each participant. To join, a process
// 1. acquires the `joiner` lock of a slot whose holder has left or died;
// 2. publishes its pidfd and the bells that wake it on the slot's FdBoard;
// 3. stores that the slot is ready;
// 4. increments `membership`, which tells the others to refresh.
// The kernel releases the lock if its holder is killed, and each step may be
// repeated.
//
// A ring passes from one holder of its slot to the next with the items in it,
// and so do the descriptors that the former holder has published, until all of
// those items are taken. So a dead participant never blocks a slot. Only the
// ring of a pipe, whose items belong to one end, must be empty first.

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_MEMBERSHIP_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_MEMBERSHIP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_members.h"
#include "tenon/ipc/queue/internal/queue_memory.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {

// Ownership: memory and members are the caller's and outlive it.
// Threads: one, except that TakeWakes() and the snapshots are thread-safe once
//   it has joined.
// Processes: the owner is inert in a forked child; nothing here checks that.
// Failure: a failed call changes nothing.
class QueueMembership {
 public:
  QueueMembership(QueueMemory* memory, QueueMembers* members)
      : memory_(*memory), members_(*members) {}

  // Acquires a slot for the calling thread, in which no peer sees this process
  // yet; the thread must call Join() or Abandon() next. Errors:
  // kResourceExhausted naming max_participants if living participants, or
  // processes that are joining, have all slots; or at a limit of descriptors,
  // where it is not known whether the holder of a slot has died.
  absl::Status Claim();
  // Releases a slot that was claimed and never ready.
  void Abandon();
  // Shows the slot to the other participants, which may ring `bells` from then
  // on. After an error the slot is still claimed.
  absl::Status Join(const std::array<int, kQueueWaits>& bells);
  // Leaves the queue.
  void Leave();

  size_t slot() const { return slot_; }
  // Whether another participant has ever been ready.
  bool HadOthers() const;
  // How many participants have joined after this one.
  uint64_t JoinsSinceItsOwn() const { return Joins() - joins_at_own_; }

  // Readable after a wake through the board until TakeWakes(), which wakes all
  // sleeping threads of this participant.
  int wake_fd() const { return memory_.board(slot_).wake_fd(); }
  void TakeWakes() const;

  // Publishes `bytes` and `fds` for the receivers of this participant's items.
  // Errors: FdBoard::Publish()'s; kResourceExhausted also while items of the
  // slot's former holder are in its ring.
  absl::Status PublishFds(absl::string_view bytes, absl::Span<const int> fds);

 private:
  uint64_t Joins() const;
  absl::StatusOr<bool> MayTake(size_t slot, bool with_items) const;
  absl::StatusOr<bool> ClaimSlot(size_t slot, bool with_items);
  absl::StatusOr<bool> HasDied(size_t slot, uint64_t generation) const;
  absl::Status PublishOnBoard(absl::string_view bytes,
                              absl::Span<const int> fds);

  QueueMemory& memory_;
  QueueMembers& members_;
  size_t slot_ = 0;
  uint64_t generation_ = 0;  // 0: has no slot.
  uint64_t joins_at_own_ = 0;
  uint64_t first_ = 0;  // The first item in the ring that is its own.
  std::optional<PidFd> process_;
  std::array<int, kQueueWaits> bells_ = {};
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_MEMBERSHIP_H_
