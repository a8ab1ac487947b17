// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueGroup: the membership of a queue. Internal to Queue (queue.h).
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

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_GROUP_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_GROUP_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

// QueueParticipant::state: the state in the low bits, the generation above.
inline QueueParticipant::State QueueStateOf(uint64_t word) {
  return static_cast<QueueParticipant::State>(word & 3);
}
inline uint64_t QueueGenerationOf(uint64_t word) { return word >> 2; }

// The reasons for which a participant may sleep; each has a bell of its own.
enum class QueueWait : size_t { kGet = 0, kPut = 1, kJoin = 2 };
inline constexpr size_t kQueueWaits = 3;

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

// Ownership: owns the memory and the boards; a member is shared with the users
//   of its descriptors.
// Threads: Refresh(), Announce(), Share() and the boards are thread-safe; the
//   rest is for one thread.
// Processes: the owner is inert in a forked child; nothing here checks that.
// Trust: values from the memory are checked before they are used as an index.
// Failure: a failed call changes nothing.
class QueueGroup {
 public:
  using Members = std::vector<std::shared_ptr<const QueueMember>>;

  // `geometry` is valid except for its id. Errors:
  // Segment::CreateSharedWritable()'s; kResourceExhausted at a limit of
  // descriptors.
  static absl::StatusOr<std::unique_ptr<QueueGroup>> Create(
      QueueGeometry geometry, const std::string& name);
  // Takes the descriptors of the boards out of `handle`; nothing if it fails.
  // Errors: Segment::Adopt()'s; kInvalidArgument if it is not the handle of a
  // queue; kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<std::unique_ptr<QueueGroup>> Open(QueueHandle& handle);
  // Returns the descriptors to the handle; the group is unusable afterwards.
  void GiveBack(QueueHandle& handle);

  const QueueGeometry& geometry() const { return geometry_; }
  absl::StatusOr<QueueHandle> Share() const;

  QueueWords& words() const {
    return *reinterpret_cast<QueueWords*>(mapping_.data());
  }
  QueueParticipant& at(size_t slot) const {
    return reinterpret_cast<QueueParticipant*>(mapping_.data() +
                                               kQueueParticipantsOffset)[slot];
  }
  SharedWord<uint64_t>* slots_of(size_t slot) const {
    return reinterpret_cast<SharedWord<uint64_t>*>(
        mapping_.data() + geometry_.slots_offset() +
        slot * geometry_.ring_bytes());
  }
  SharedWord<uint64_t>& sleeping(size_t slot, QueueWait wait) const;

  // --- This participant's slot. ---

  // Acquires a slot for the calling thread, in which no peer sees this process
  // yet; the thread must call Join() or Abandon() next. Errors:
  // kResourceExhausted naming max_participants if living participants, or
  // processes that are joining, have all slots; or at a limit of descriptors,
  // where it is not known whether the holder of a slot has died.
  absl::StatusOr<size_t> Claim();
  // Releases a slot that was claimed and never ready.
  void Abandon();
  // Shows the slot to the other participants, which may ring `bells` from then
  // on. After an error the slot is still claimed.
  absl::Status Join(const std::array<int, kQueueWaits>& bells);
  // Leaves the queue.
  void Leave();

  size_t own() const { return own_; }
  uint64_t generation() const { return generation_; }

  // --- The other participants. ---

  uint64_t membership() const {
    return StdAtomics::Load(words().membership, std::memory_order_seq_cst);
  }
  // Returns the ready participants, this one included, and the `membership`
  // number for which they hold. System calls only if a participant has joined.
  // Errors: kResourceExhausted at a limit of descriptors.
  absl::StatusOr<uint64_t> Refresh(Members* members);
  // The number of slots ever used: all unused slots come after them.
  size_t used() const;
  // Whether another participant has ever been ready.
  bool HadOthers() const;
  // Reads the slots again, for participants that are ready and have not
  // incremented `membership` yet, or were killed before they could. Refresh()
  // then returns these too.
  absl::Status ForceRefresh();

  // How items are published to sleeping participants.
  Publication publication() const { return publication_; }

  // Wakes all sleeping participants. Cannot fail: those whose descriptors
  // cannot be received, at a limit of descriptors, are woken through their
  // boards.
  void Announce();
  // Wakes all participants through their boards: needs no descriptor, and wakes
  // each whatever it sleeps for.
  void WakeThroughBoards() const;
  // Readable after a wake through the board until TakeWakes(), which wakes all
  // sleeping threads of this participant.
  int wake_fd() const { return boards_[own_].wake_fd(); }
  void TakeWakes() const;

  // --- Descriptors published with items, for queues of more than bytes. ---

  // Publishes `bytes` and `fds` for the receivers of this participant's items.
  // Errors: FdBoard::Publish()'s; kResourceExhausted also while items of the
  // slot's former holder are in its ring.
  absl::Status PublishFds(absl::string_view bytes, absl::Span<const int> fds);
  // Reads the descriptors that the holder of `slot`, of that generation,
  // has published, or the holder before it.
  absl::StatusOr<PublishedFds> ReadFds(size_t slot, uint64_t* generation) const;

 private:
  QueueGroup(const QueueGeometry& geometry, Segment segment,
             WritableMapping mapping, std::vector<FdBoard> boards)
      : geometry_(geometry),
        segment_(std::move(segment)),
        mapping_(std::move(mapping)),
        boards_(std::move(boards)) {}

  // Precedes the bytes published on a board.
  struct BoardHeader {
    uint64_t slot;
    uint64_t generation;
  };
  // The pidfd and the bells.
  static constexpr size_t kOwnFds = 1 + kQueueWaits;

  absl::StatusOr<bool> MayTake(size_t slot, bool with_items) const;
  absl::StatusOr<bool> ClaimSlot(size_t slot, bool with_items);
  absl::StatusOr<bool> HasDied(size_t slot, uint64_t generation) const;
  bool IsEmpty(size_t slot) const;
  absl::Status PublishOnBoard(absl::string_view bytes,
                              absl::Span<const int> fds);
  absl::StatusOr<std::shared_ptr<const QueueMember>> ReadMember(
      size_t slot, uint64_t generation) const;
  absl::Status ReadMembers();

  const QueueGeometry geometry_;
  Segment segment_;
  WritableMapping mapping_;
  std::vector<FdBoard> boards_;
  size_t own_ = 0;
  uint64_t generation_ = 0;  // 0: has no slot.
  uint64_t first_ = 0;       // The first item in the ring that is its own.
  Publication publication_ = Publication::kSequential;
  std::optional<PidFd> process_;
  std::array<int, kQueueWaits> bells_ = {};

  std::mutex mutex_;  // Guards the members below.
  uint64_t known_ = ~uint64_t{0};
  Members members_;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_GROUP_H_
