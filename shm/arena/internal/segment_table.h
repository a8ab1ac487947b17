// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SegmentTable: the segments of an arena, and their blocks, in the process that
// owns them. Internal to Arena.

#ifndef TENON_SHM_ARENA_INTERNAL_SEGMENT_TABLE_H_
#define TENON_SHM_ARENA_INTERNAL_SEGMENT_TABLE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/kept_object.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/ledger/range_allocator.h"
#include "tenon/shm/pages/mapping.h"

namespace tenon {

struct OwnedSegment;

// A block of the owner. The plain members are used by one thread at a time: by
// the one that took the block from its shelf (block_shelves.h).
struct OwnedBlock {
  std::atomic<uint32_t> references{0};  // Block objects.
  // Described since it was last reclaimed: peers may hold it.
  std::atomic<bool> exposed{false};
  bool generation_bumped = false;  // See ReclaimCandidate.
  bool used = false;               // Contains bytes of an earlier use.
  uint32_t number = 0;             // In the arena.
  uint64_t refusals = 0;  // ArenaHeader::refused, when it was last taken.
  OwnedSegment* segment = nullptr;
  // The storage of its last tensor, for the next one (own_storage.h). It may be
  // in use also when the block is on its shelf.
  std::unique_ptr<KeptObject> kept;

  std::byte* data() const;
  size_t size() const;
};

struct OwnedSegment {
  OwnedSegment(const ArenaSegment& listing,
               std::unique_ptr<StoredSegment> stored);

  size_t bytes() const { return memory->size_bytes(); }

  const ArenaSegment listed;
  std::byte* const data;  // Of `memory`; perhaps an address of a device.
  const std::unique_ptr<StoredSegment> memory;
  const std::unique_ptr<OwnedBlock[]> blocks;
  size_t free_blocks = 0;  // On their shelf; guarded by its lock.
};

inline std::byte* OwnedBlock::data() const {
  return segment->data +
         (number - segment->listed.first_block) * segment->listed.block_bytes;
}
inline size_t OwnedBlock::size() const { return segment->listed.block_bytes; }

// Whether free blocks of this size are inaccessible.
inline bool Protects(const ArenaOptions& options, size_t block_bytes) {
  return options.debug == ArenaDebug::kProtect && block_bytes >= kPageBytes;
}

// Ownership: owns the segments. What the constructor is given is not owned and
//   outlives the SegmentTable.
// Threads: thread-compatible; guarded by the arena's lock.
// Failure: a failed call changes nothing.
class SegmentTable {
 public:
  SegmentTable(const ArenaOptions& options, BlockStore& store,
               ArenaTable& table, Attachments& attachments);

  // Makes a segment of blocks of that size and lists it in the arena's table.
  // Each further segment of a size is twice as large, up to the store's
  // largest (32 MiB if it is mapped), within the quota and the number of
  // blocks, and smaller where memory is short. Its
  // blocks are on no shelf yet.
  // Errors: kResourceExhausted naming the limit.
  absl::StatusOr<OwnedSegment*> Add(size_t block_bytes);

  // Retires the segments for which `remove(OwnedSegment&)` returns true: their
  // blocks are free, and `remove` has removed them from their shelf. Processes
  // that have the segment mapped keep it until they notice. Returns the bytes.
  template <typename Remove>
  size_t RetireIf(Remove remove) {
    const size_t before = bytes_;
    for (const auto& segment : segments_) {
      if (segment != nullptr && remove(*segment)) Retire(*segment);
    }
    return before - bytes_;
  }

  // Calls visit(const OwnedBlock&) for each block of each segment.
  template <typename Visit>
  void ForEachBlock(Visit visit) const {
    for (const auto& segment : segments_) {
      if (segment == nullptr) continue;
      for (uint64_t i = 0; i < segment->listed.block_count; ++i) {
        visit(segment->blocks[i]);
      }
    }
  }

  // Of all segments, counted against the quota.
  size_t bytes() const { return bytes_; }
  // Fills in the figures of segments and blocks.
  void Report(ArenaUse& use) const;

 private:
  static constexpr uint32_t kMaxSegments = ArenaTableLayout::kMaxSegments;

  absl::StatusOr<ArenaSegment> Plan(size_t block_bytes);
  size_t RoundUp(size_t bytes) const;
  uint32_t FreeSlot() const;
  absl::StatusOr<OwnedSegment*> Make(ArenaSegment plan);
  void Retire(const OwnedSegment& segment);

  const ArenaOptions& options_;
  BlockStore& store_;
  ArenaTable& table_;
  Attachments& attachments_;
  RangeAllocator free_numbers_;  // Of blocks.
  std::array<std::unique_ptr<OwnedSegment>, kMaxSegments> segments_;
  std::array<uint64_t, kMaxSegments> next_id_;
  std::array<uint32_t, kSizeClasses> segments_of_class_ = {};
  size_t bytes_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_SEGMENT_TABLE_H_
