// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueMemory: the shared memory of a queue and the boards of its slots.
// Internal to Queue (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_MEMORY_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

// Ownership: owns the segment, its mapping and the boards.
// Threads: Share() and the words are thread-safe; for the boards see FdBoard.
// Trust: values from the memory are checked before they are used as an index.
// Failure: a failed call changes nothing.
class QueueMemory {
 public:
  // `geometry` is valid except for its id. Errors:
  // Segment::CreateSharedWritable()'s; kResourceExhausted at a limit of
  // descriptors.
  static absl::StatusOr<QueueMemory> Create(QueueGeometry geometry,
                                            const std::string& name);
  // Takes the descriptors of the boards out of `handle`; nothing if it fails.
  // Errors: Segment::Adopt()'s; kInvalidArgument if it is not the handle of a
  // queue; kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<QueueMemory> Open(QueueHandle& handle);
  // Returns the descriptors to the handle; the boards are unusable afterwards.
  void GiveBack(QueueHandle& handle);

  absl::StatusOr<QueueHandle> Share() const;

  const QueueGeometry& geometry() const { return geometry_; }
  // As its creator named the queue, from the label of the memory; empty if this
  // process has no /proc that shows it.
  std::string name() const;
  // How items are published to sleeping participants.
  Publication publication() const { return publication_; }

  QueueWords& words() const {
    return *reinterpret_cast<QueueWords*>(mapping_.data());
  }
  QueueParticipant& at(size_t slot) const {
    return reinterpret_cast<QueueParticipant*>(mapping_.data() +
                                               kQueueParticipantsOffset)[slot];
  }
  // Counts joins and leaves.
  uint64_t membership() const {
    return StdAtomics::Load(words().membership, std::memory_order_seq_cst);
  }
  SharedWord<uint64_t>& sleeping(size_t slot, QueueWait wait) const;
  FdBoard& board(size_t slot) { return boards_[slot]; }
  const FdBoard& board(size_t slot) const { return boards_[slot]; }

  // Whether the ring of `slot` has no items. Sequentially consistent with the
  // putter's publication and the getters' taking.
  bool IsEmpty(size_t slot) const;
  // The position after the last item in the ring of `slot`, and the sequence
  // word of the slot that is taken next. Snapshots.
  uint64_t EndOf(size_t slot) const;
  uint64_t NextSequence(size_t slot) const;
  // Before the ring of a participant that has died is written again.
  void RecoverRing(size_t slot) const;
  // The putter's and a getter's half of the ring of `slot`.
  QueueWriter<> MakeWriter(size_t slot) const;
  QueueTaker<> MakeTaker(size_t slot) const;

 private:
  QueueMemory(const QueueGeometry& geometry, Segment segment,
              WritableMapping mapping)
      : geometry_(geometry),
        segment_(std::move(segment)),
        mapping_(std::move(mapping)) {}

  QueueSlots<> SlotsOf(size_t slot) const;

  QueueGeometry geometry_;
  Segment segment_;
  WritableMapping mapping_;
  std::vector<FdBoard> boards_;  // One for each slot.
  Publication publication_ = Publication::kSequential;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_MEMORY_H_
