// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArenaAttachment: this process's attachment to one arena, shared by all of its
// AttachedArenas of that arena. Internal to them.
//
// An owner counts attachments by process, and reads the cells of each; so a
// process attaches once to an arena, however many queues and importers it has.
// Arenas are distinguished by the memory of their tables: an id is an untrusted
// number of the sender of the offer.

#ifndef TENON_SHM_ARENA_INTERNAL_ARENA_ATTACHMENT_H_
#define TENON_SHM_ARENA_INTERNAL_ARENA_ATTACHMENT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/arena_limits.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/file_identity.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/mapped_segment.h"
#include "tenon/shm/arena/memory_kind.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column.h"

namespace tenon {

// Ownership: held by shared_ptr, which each AttachedArena has; owns the
//   descriptors of the offers, a mapping of each segment and of the table, and
//   cells in this process's column. Detaches when it is destroyed.
// Threads: thread-safe.
// Processes: a forked child does not detach its parent; it attaches anew.
class ArenaAttachment {
 public:
  // The attachment of this process to the arena of an offer; attaches if there
  // is none or the owner has refused it. Maps the offered segment. One thread
  // at a time attaches to an arena; other threads that need the same one wait
  // for it. Errors: AttachedArena::Attach()'s.
  static absl::StatusOr<std::shared_ptr<ArenaAttachment>> Get(
      const ArenaOfferFacts& facts, ReceivedFds& fds,
      const AttachLimits& limits);

  ArenaAttachment(const ArenaAttachment&) = delete;
  ArenaAttachment& operator=(const ArenaAttachment&) = delete;
  ~ArenaAttachment();

  const ArenaTableView& table() const { return table_; }
  // Of the blocks, in this process.
  DLDevice device() const { return device_; }
  // To forward; still owned here.
  int inbox() const { return inbox_.get(); }
  SharedWord<uint64_t>& cell(uint32_t block) const {
    return range_.cells[block];
  }
  // The slot of a segment; it may hold another segment, or none. Not analysed:
  // the slots are guarded, but the access to one needs no lock.
  SegmentAccess& SlotOf(uint32_t segment) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return segments_[ArenaTableLayout::SlotOf(segment)];
  }

  // Whether an AttachedArena has a segment already.
  enum class User { kNew, kKnown };
  // Checks another offer of this arena, and maps its segment if it is not
  // mapped.
  // Errors: AttachedArena::Add()'s.
  absl::Status Map(const ArenaOfferFacts& facts, ReceivedFds& fds,
                   const AttachLimits& limits, User user);
  // Of an AttachedArena that has the segment and is destroyed.
  void RemoveUser(uint32_t segment);
  // Whether a segment is mapped and has to stay so: a block of it is claimed,
  // or another AttachedArena has it.
  bool IsPinned(uint32_t segment) const;
  // Unmaps a segment for its only user. False if it is pinned.
  bool Evict(uint32_t segment);
  // Bytes of a segment; 0 if it is not mapped.
  uint64_t BytesOf(uint32_t segment) const;
  // The offer of a segment for a third process. Errors: kNotFound.
  absl::StatusOr<ArenaOffer> Offer(uint32_t segment) const;
  // Unmaps segments that the owner has retired and that have no holds.
  void Sweep();

  // Whether the owner has refused messages since the lease was last seen open:
  // a load of one word. If true, call IsRefused().
  bool MayBeRefused() const {
    return table_.refused() != refused_seen_.load(std::memory_order_relaxed);
  }
  // Whether the owner lives and has shut its end of the lease: it reads none of
  // these cells (model: finds_shut). Permanent. No system call unless
  // MayBeRefused(). Does not block.
  bool IsRefused();

  // Whether the owner has closed the arena, or ended: it reclaims no block any
  // more. An uncertain answer counts as alive. Some system calls. Does not
  // block.
  bool OwnerHasEnded() const;

 private:
  friend class ArenaRemains;
  struct Slot;
  struct Registry;

  ArenaAttachment(ArenaTableView table, const MemoryKind* kind, DLDevice device,
                  UniqueFd inbox, std::shared_ptr<Column> column)
      : table_(std::move(table)),
        kind_(*kind),
        device_(device),
        inbox_(std::move(inbox)),
        column_(std::move(column)) {}

  static std::shared_ptr<Slot> SlotOfTable(const FileIdentity& table);
  static absl::StatusOr<std::shared_ptr<ArenaAttachment>> Create(
      const ArenaOfferFacts& facts, ReceivedFds& fds,
      const AttachLimits& limits);
  absl::Status Send();
  absl::Status CheckIsTable(int fd) const;
  absl::Status MapSegment(const ArenaOfferFacts& facts, ReceivedFds& fds,
                          const AttachLimits& limits, User user);
  bool HasClaims(const ArenaSegment& segment) const;
  absl::StatusOr<std::unique_ptr<StoredSegment>> OpenChecked(
      const ArenaOfferFacts& facts, ReceivedFds& fds,
      const AttachLimits& limits, ArenaSegment* listed) const;

  const ArenaTableView table_;
  const MemoryKind& kind_;
  const DLDevice device_;
  UniqueFd inbox_;
  const std::shared_ptr<Column> column_;
  std::shared_ptr<Slot> slot_;
  ColumnRange range_;
  UniqueFd lease_;  // Invalid if the owner had ended before.
  // Lives until the cells are free, which may be after this object's end.
  std::shared_ptr<const void> cells_ = std::make_shared<char>();
  std::atomic<uint64_t> refused_seen_{0};
  std::atomic<bool> refused_{false};
  const uint64_t fork_count_ = ForkCount();

  mutable ThreadMutex mutex_;
  std::array<MappedSegment, ArenaTableLayout::kMaxSegments> segments_
      ABSL_GUARDED_BY(mutex_);
};

// The remains of an attachment once one of its AttachedArenas is gone.
class ArenaRemains {
 public:
  explicit ArenaRemains(const std::shared_ptr<ArenaAttachment>& attachment)
      : column_(attachment->column_),
        attachment_(attachment),
        cells_(attachment->cells_) {}

  // Whether other AttachedArenas use the attachment, or its cells are free.
  // Until then the owner reads the cells, and they cannot be reused.
  bool CostNothing() const;

 private:
  std::shared_ptr<Column> column_;
  std::weak_ptr<ArenaAttachment> attachment_;
  std::weak_ptr<const void> cells_;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_ARENA_ATTACHMENT_H_
