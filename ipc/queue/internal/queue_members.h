// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueMembers: the participants of a queue, as this participant knows them.
// Internal to Queue (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_MEMBERS_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_MEMBERS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_memory.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {

// The message on a slot's board: this header and the bytes that its holder has
// published; their descriptors, then the holder's pidfd and bells.
struct QueueBoardHeader {
  uint64_t slot;
  uint64_t generation;
};
inline constexpr size_t kQueueMemberFds = 1 + kQueueWaits;

// A ready participant, as its peers know it.
struct QueueMember {
  size_t slot = 0;
  uint64_t generation = 0;
  PidFd process;
  std::array<UniqueFd, kQueueWaits> bells;

  uint64_t id() const {
    return generation * QueueGeometry::kMaxParticipants + slot;
  }
};

// Wakes the sleepers of this bell. One system call, which does not block.
void RingQueueBell(int bell);

// Ownership: the memory is the caller's and outlives it; a member is shared
//   with the users of its descriptors.
// Threads: thread-safe.
// Failure: a failed call changes nothing.
class QueueMembers {
 public:
  using List = std::vector<std::shared_ptr<const QueueMember>>;

  explicit QueueMembers(const QueueMemory* memory) : memory_(*memory) {}

  // Returns the ready participants, this one included, and the `membership`
  // number for which they hold. System calls only if a participant has joined.
  // Errors: kResourceExhausted at a limit of descriptors.
  absl::StatusOr<uint64_t> Refresh(List* members);
  // Reads the slots again, for participants that are ready and have not
  // incremented `membership` yet, or were killed before they could. Refresh()
  // then returns these too.
  absl::Status ForceRefresh();

  // The number of slots ever used: all unused slots come after them.
  size_t used() const;
  // The holder of `slot` of that generation; null if it has left. Errors:
  // kResourceExhausted at a limit of descriptors.
  absl::StatusOr<std::shared_ptr<const QueueMember>> Read(
      size_t slot, uint64_t generation) const;
  // The holder of each slot, or the last one that left or died, by its pid;
  // without those that have been reaped, that /proc does not show, or for which
  // there is no descriptor.
  std::vector<pid_t> LastHolders() const;
  // Reads the descriptors that the holder of `slot` has published, or the
  // holder before it.
  absl::StatusOr<Message> ReadFds(size_t slot) const;

  // Wakes all sleeping participants. Cannot fail: those whose descriptors
  // cannot be received, at a limit of descriptors, are woken through their
  // boards.
  void Announce();
  // Wakes all participants through their boards: needs no descriptor, and wakes
  // each whatever it sleeps for.
  void WakeThroughBoards() const;

 private:
  absl::Status ReadAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const QueueMemory& memory_;
  ThreadMutex mutex_;
  uint64_t known_ ABSL_GUARDED_BY(mutex_) = ~uint64_t{0};
  List members_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_MEMBERS_H_
