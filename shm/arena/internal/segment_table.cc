// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/segment_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

constexpr uint32_t kMostDoublings = 7;

}  // namespace

OwnedSegment::OwnedSegment(const ArenaSegment& listing,
                           std::unique_ptr<StoredSegment> stored)
    : listed(listing),
      data(stored->data()),
      memory(std::move(stored)),
      blocks(new OwnedBlock[listing.block_count]) {
  for (uint64_t i = 0; i < listing.block_count; ++i) {
    blocks[i].number = static_cast<uint32_t>(listing.first_block + i);
    blocks[i].segment = this;
  }
}

SegmentTable::SegmentTable(const ArenaOptions& options, BlockStore& store,
                           ArenaTable& table, Attachments& attachments)
    : options_(options),
      store_(store),
      table_(table),
      attachments_(attachments),
      free_numbers_(options.max_blocks) {
  std::iota(next_id_.begin(), next_id_.end(), uint64_t{0});
}

absl::StatusOr<OwnedSegment*> SegmentTable::Add(size_t block_bytes) {
  TENON_ASSIGN_OR_RETURN(ArenaSegment plan, Plan(block_bytes));
  for (;;) {
    auto made = Make(plan);
    if (made.ok()) return made;
    // Where memory is short there may be enough for a smaller segment.
    uint64_t fewer =
        absl::IsResourceExhausted(made.status()) ? plan.block_count / 2 : 0;
    if (RoundUp(fewer * block_bytes) ==
        RoundUp(plan.block_count * block_bytes)) {
      fewer = 0;
    }
    free_numbers_.Free(plan.first_block + fewer, plan.block_count - fewer);
    if (fewer == 0) return made;
    plan.block_count = fewer;
  }
}

// To what the store makes.
size_t SegmentTable::RoundUp(size_t bytes) const {
  const size_t unit = store_.facts().segment_unit;
  return (bytes + unit - 1) / unit * unit;
}

// Allocates the id and the numbers of the blocks.
absl::StatusOr<ArenaSegment> SegmentTable::Plan(size_t block_bytes) {
  const BlockStore::Facts& store = store_.facts();
  // Whole units, so that what is made of them is within the quota.
  const size_t left =
      (options_.quota_bytes - bytes_) / store.segment_unit * store.segment_unit;
  if (left < block_bytes) {
    return absl::ResourceExhaustedError(
        "the quota is used up (ArenaOptions::quota_bytes)");
  }
  const uint32_t slot = FreeSlot();
  if (slot == kMaxSegments) {
    return absl::ResourceExhaustedError(
        absl::StrCat("all ", slot, " segments of the arena are in use"));
  }
  const uint32_t doublings =
      std::min(segments_of_class_[SizeClassOf(block_bytes)], kMostDoublings);
  const size_t wanted = RoundUp(
      std::min(options_.segment_bytes << doublings, store.largest_segment));
  uint64_t count = std::max<size_t>(1, std::min(wanted, left) / block_bytes);
  for (; count > 0; count /= 2) {
    const auto first = free_numbers_.Allocate(count);
    if (!first.has_value()) continue;
    return ArenaSegment{
        .id_and_state = next_id_[slot] << 32 | ArenaSegment::kLive,
        .block_bytes = block_bytes,
        .block_count = count,
        .first_block = *first};
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("all ", options_.max_blocks,
                   " blocks are in segments; raise ArenaOptions::max_blocks"));
}

// kMaxSegments if there is none. A slot has 4,194,304 ids; when they are used
// up it is never free again.
uint32_t SegmentTable::FreeSlot() const {
  for (uint32_t slot = 0; slot < kMaxSegments; ++slot) {
    if (segments_[slot] == nullptr && next_id_[slot] <= UINT32_MAX) return slot;
  }
  return kMaxSegments;
}

absl::StatusOr<OwnedSegment*> SegmentTable::Make(ArenaSegment plan) {
  TENON_ASSIGN_OR_RETURN(
      std::unique_ptr<StoredSegment> made,
      store_.Create(RoundUp(plan.block_bytes * plan.block_count)));
  if (Protects(options_, plan.block_bytes)) {
    TENON_RETURN_IF_ERROR(store_.Protect(made->data(), made->size_bytes()));
  }
  // The cells of a block must be readable before a process can claim it.
  TENON_RETURN_IF_ERROR(
      attachments_.Reserve(plan.first_block, plan.block_count));
  TENON_ASSIGN_OR_RETURN(plan.file, made->Identify());
  TENON_RETURN_IF_ERROR(table_.Add(plan));
  const uint32_t slot = ArenaTableLayout::SlotOf(plan.id());
  segments_[slot] = std::make_unique<OwnedSegment>(plan, std::move(made));
  next_id_[slot] += kMaxSegments;
  bytes_ += segments_[slot]->bytes();
  ++segments_of_class_[SizeClassOf(plan.block_bytes)];
  return segments_[slot].get();
}

void SegmentTable::Retire(const OwnedSegment& segment) {
  const ArenaSegment& listed = segment.listed;
  TENON_CRASH_POINT("arena.retiring");
  table_.Retire(listed.id());
  free_numbers_.Free(listed.first_block, listed.block_count);
  bytes_ -= segment.bytes();
  --segments_of_class_[SizeClassOf(listed.block_bytes)];
  segments_[ArenaTableLayout::SlotOf(listed.id())].reset();
}

void SegmentTable::Report(ArenaUse& use) const {
  use.segment_bytes = bytes_;
  for (const auto& segment : segments_) use.segments += segment != nullptr;
  ForEachBlock([&](const OwnedBlock& block) {
    switch (table_.StateOf(block.number).kind) {
      case BlockState::kInUse:
        ++use.blocks_in_use;
        break;
      case BlockState::kReleased:
        ++use.blocks_released;
        break;
      case BlockState::kFree:
        ++use.blocks_free;
        break;
    }
  });
}

}  // namespace tenon
