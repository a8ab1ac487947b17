// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueGroup: who takes part in a queue. Internal to Queue (queue.h).
//
// The memory has a table of slots. A process that joins acquires the `joiner`
// lock of one whose holder has left or died, puts on the slot's shelf what the
// others need to wake it and to see its death, stores that it is ready, and
// counts up `roster`, by which the others see that they have to refresh. The
// lock is free again when its holder is killed, and each step may be done
// twice.
//
// The ring of a slot goes on from one holder to the next with the items that it
// has, and so does what the former holder has put on the shelf, until all those
// items are taken. So the dead never keep a slot. Only of a pipe, where it
// matters to which end an item belongs, a ring must be empty.

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
#include "tenon/ipc/queue/fd_shelf.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

// What is in the low bits of QueueParticipant::state, and above them.
inline QueueParticipant::State QueueStateOf(uint64_t word) {
  return static_cast<QueueParticipant::State>(word & 3);
}
inline uint64_t QueueGenerationOf(uint64_t word) { return word >> 2; }

// For what a participant may sleep: each has a bell of its own.
enum class QueueWait : size_t { kGet = 0, kPut = 1, kJoin = 2 };
inline constexpr size_t kQueueWaits = 3;

// One who is there, as others know it.
struct QueueMember {
  size_t place = 0;
  uint64_t generation = 0;
  PidFd process;
  std::array<UniqueFd, kQueueWaits> bells;

  uint64_t id() const {
    return generation * QueueKind::kMaxParticipants + place;
  }
};

// Wakes who sleeps by this bell. One system call, which does not block.
void RingQueueBell(int bell);

// Ownership: owns the memory and the shelves; a member is shared with those who
//   use its descriptors.
// Threads: Refresh(), Announce(), Share() and shelves may be used at once; the
//   rest is for one thread.
// Processes: the owner is inert in a forked child; nothing here looks.
// Trust: what the memory says is checked where it could lead out of it.
// Failure: a failed call changes nothing.
class QueueGroup {
 public:
  using Members = std::vector<std::shared_ptr<const QueueMember>>;

  // `kind` is good but for its id. Errors: Segment::CreateSharedWritable()'s;
  // kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<std::unique_ptr<QueueGroup>> Create(
      QueueKind kind, const std::string& name);
  // Takes the descriptors of the shelves out of `handle`; nothing if it fails.
  // Errors: Segment::Adopt()'s; kInvalidArgument if it is no handle of a queue;
  // kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<std::unique_ptr<QueueGroup>> Open(QueueHandle& handle);
  // Puts them back; the group cannot be used then.
  void GiveBack(QueueHandle& handle);

  const QueueKind& kind() const { return kind_; }
  absl::StatusOr<QueueHandle> Share() const;

  QueueWords& words() const {
    return *reinterpret_cast<QueueWords*>(mapping_.data());
  }
  QueueParticipant& at(size_t place) const {
    return reinterpret_cast<QueueParticipant*>(mapping_.data() +
                                               kQueueParticipantsOffset)[place];
  }
  SharedWord<uint64_t>* slots_of(size_t place) const {
    return reinterpret_cast<SharedWord<uint64_t>*>(
        mapping_.data() + kind_.slots_offset() + place * kind_.ring_bytes());
  }
  SharedWord<uint64_t>& sleeping(size_t place, QueueWait wait) const;

  // --- One's own place. ---

  // Claims one, in which nothing is seen of this process yet, for the calling
  // thread: it is to call Enrol() or Abandon(), before anything else. Errors:
  // kResourceExhausted naming max_participants if living participants, or
  // processes that are joining, have all.
  absl::StatusOr<size_t> Claim();
  // Gives up what was claimed and never ready.
  void Abandon();
  // Shows it to the others, who may ring `bells` from then on. After an error
  // the slot is still claimed.
  absl::Status Enrol(const std::array<int, kQueueWaits>& bells);
  // Takes no part any more.
  void Leave();

  size_t own() const { return own_; }
  uint64_t generation() const { return generation_; }

  // --- The others. ---

  uint64_t roster() const {
    return StdAtomics::Load(words().roster, std::memory_order_seq_cst);
  }
  // Who is ready, this one too, and which `roster` that is of. System calls
  // only if somebody has come. Errors: kResourceExhausted at a limit of
  // descriptors.
  absl::StatusOr<uint64_t> Refresh(Members* members);
  // How many places there are that were ever taken: all others are after them.
  size_t used() const;
  // Whether somebody else has ever been ready.
  bool HadOthers() const;
  // Looks for those who are ready and have not said so yet, or were killed
  // before they could; Refresh() then gives them, too.
  absl::Status LookAgain();

  // How items are shown to those who sleep.
  Publication publication() const { return publication_; }

  // Wakes all participants that sleep. Cannot fail: those that cannot be met,
  // at a limit of descriptors, are woken through their shelves.
  void Announce();
  // The same, of all through their shelves: no descriptor is needed, and each
  // is woken for whatever it sleeps.
  void WakeThroughShelves() const;
  // Readable when this participant was woken so, until TakeWakes(), which wakes
  // all of its threads that sleep.
  int wake_fd() const { return shelves_[own_].wake_fd(); }
  void TakeWakes() const;

  // --- What lies on the shelves beside, for who puts more into a queue. ---

  // Lays `bytes` and `fds` out for those who take what this one puts. Errors:
  // FdShelf::Put()'s; kResourceExhausted also as long as items of the former
  // holder of the slot are in its ring.
  absl::Status LayOut(absl::string_view bytes, absl::Span<const int> fds);
  // What the holder of `place`, which is of `generation`, has laid out, or the
  // one before it.
  absl::StatusOr<ShelfItem> TakeFrom(size_t place, uint64_t* generation) const;

 private:
  QueueGroup(const QueueKind& kind, Segment segment, WritableMapping mapping,
             std::vector<FdShelf> shelves)
      : kind_(kind),
        segment_(std::move(segment)),
        mapping_(std::move(mapping)),
        shelves_(std::move(shelves)) {}

  // In front of what lies on a shelf.
  struct ShelfHeader {
    uint64_t place;
    uint64_t generation;
  };
  static constexpr size_t kOwnFds = 1 + kQueueWaits;  // The process, its bells.

  bool MayTake(size_t place, bool with_items) const;
  bool ClaimPlace(size_t place, bool with_items);
  bool HasDied(size_t place, uint64_t generation) const;
  bool IsEmpty(size_t place) const;
  absl::Status PutOnShelf(absl::string_view bytes, absl::Span<const int> fds);
  absl::StatusOr<std::shared_ptr<const QueueMember>> MeetMember(
      size_t place, uint64_t generation) const;
  absl::Status Look();

  const QueueKind kind_;
  Segment segment_;
  WritableMapping mapping_;
  std::vector<FdShelf> shelves_;
  size_t own_ = 0;
  uint64_t generation_ = 0;  // 0: it has no place.
  uint64_t first_ = 0;       // Of its ring, the first item that is its own.
  Publication publication_ = Publication::kSequential;
  std::optional<PidFd> process_;
  std::array<int, kQueueWaits> bells_ = {};

  std::mutex mutex_;  // Of what follows.
  uint64_t known_ = ~uint64_t{0};
  Members members_;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_GROUP_H_
