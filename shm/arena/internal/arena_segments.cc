// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Of ArenaState (arena_state.h): segments, made and given back.

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/arena/internal/arena_state.h"
#include "tenon/shm/arena/shortage_hook.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

using Layout = ArenaTableLayout;

constexpr size_t kLargestSegment = size_t{32} << 20;

}  // namespace

absl::Status ArenaState::Grow(size_t block_bytes, Shelf& shelf) {
  TENON_ASSIGN_OR_RETURN(ArenaSegment plan, PlanSegment(block_bytes, shelf));
  for (;;) {
    absl::Status made = MakeSegment(plan, shelf);
    if (made.ok()) return made;
    // Where memory is short there may be enough for a smaller segment.
    const uint64_t fewer =
        absl::IsResourceExhausted(made) ? plan.block_count / 2 : 0;
    free_numbers_.Free(plan.first_block + fewer, plan.block_count - fewer);
    if (fewer == 0) return made;
    plan.block_count = fewer;
  }
}

// kMaxSegments if there is none. One whose ids are used up is never free again:
// 4,194,304 segments after its first.
uint32_t ArenaState::FreeSlot() const {
  for (uint32_t slot = 0; slot < Layout::kMaxSegments; ++slot) {
    if (segments_[slot] == nullptr && next_id_[slot] <= UINT32_MAX) return slot;
  }
  return Layout::kMaxSegments;
}

// Larger the more there are of this size, within quota and numbers.
absl::StatusOr<ArenaSegment> ArenaState::PlanSegment(size_t block_bytes,
                                                     Shelf& shelf) {
  const size_t left = options_.quota_bytes - bytes_;
  if (left < block_bytes) {
    return absl::ResourceExhaustedError("the quota is used up");
  }
  const uint32_t slot = FreeSlot();
  if (slot == Layout::kMaxSegments) {
    return absl::ResourceExhaustedError(
        absl::StrCat("it has ", slot, " segments, as many as an arena can"));
  }
  const uint32_t doublings =
      std::min(shelf.segments.load(std::memory_order_relaxed), 7u);
  const size_t wanted =
      std::min(options_.segment_bytes << doublings, kLargestSegment);
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
  return absl::ResourceExhaustedError(absl::StrCat(
      "it has ", options_.max_blocks, " blocks (ArenaOptions::max_blocks)"));
}

absl::Status ArenaState::MakeSegment(const ArenaSegment& plan, Shelf& shelf) {
  const size_t bytes = plan.block_bytes * plan.block_count;
  std::optional<Segment> segment;
  WritableMapping mapping;
  if (options_.kind == SegmentKind::kOwnerWritten) {
    TENON_ASSIGN_OR_RETURN(
        auto owned, Segment::CreateOwnerWritten(bytes, options_.segment));
    segment.emplace(std::move(owned.segment));
    mapping = std::move(owned.mapping);
  } else {
    TENON_ASSIGN_OR_RETURN(
        segment, Segment::CreateSharedWritable(bytes, options_.segment));
    TENON_ASSIGN_OR_RETURN(mapping, segment->MapWritable());
  }
  if (Protects(plan.block_bytes) &&
      mprotect(mapping.data(), mapping.size_bytes(), PROT_NONE) != 0) {
    return PosixError(errno, "mprotect", "a segment of an arena");
  }
  // Before anybody can hold a block of it, its cells can be read everywhere.
  TENON_RETURN_IF_ERROR(
      attachments_.Reserve(plan.first_block, plan.block_count));
  ArenaSegment listing = plan;
  TENON_ASSIGN_OR_RETURN(listing.file, FileIdentity::Of(segment->fd()));
  TENON_RETURN_IF_ERROR(table_.Add(listing));
  auto owned = std::make_unique<OwnedSegment>(listing, *std::move(segment),
                                              std::move(mapping));
  const uint32_t slot = Layout::SlotOf(plan.id());
  next_id_[slot] += Layout::kMaxSegments;
  bytes_ += owned->bytes();
  shelf.segments.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(shelf.mutex);
  // So that they are given out from the first to the last.
  for (uint64_t i = plan.block_count; i-- > 0;) {
    OwnedBlock& block = owned->blocks[i];
    block.number = static_cast<uint32_t>(plan.first_block + i);
    block.segment = owned.get();
    shelf.free.push_back(&block);
  }
  owned->blocks_on_shelf = plan.block_count;
  segments_[slot] = std::move(owned);
  return absl::OkStatus();
}

size_t ArenaState::RetireIdleSegments() {
  size_t bytes = 0;
  for (const auto& segment : segments_) {
    if (segment == nullptr) continue;
    Shelf& shelf = shelves_[SizeClassOf(segment->listed.block_bytes)];
    {
      std::lock_guard lock(shelf.mutex);
      if (segment->blocks_on_shelf != segment->listed.block_count) continue;
      std::erase_if(shelf.free, [&](const OwnedBlock* block) {
        return block->segment == segment.get();
      });
    }
    bytes += segment->bytes();
    Retire(*segment, shelf);
  }
  return bytes;
}

// All of its blocks are free, and on no shelf.
void ArenaState::Retire(OwnedSegment& segment, Shelf& shelf) {
  TENON_CRASH_POINT("arena.retiring");
  table_.Retire(segment.listed.id());
  free_numbers_.Free(segment.listed.first_block, segment.listed.block_count);
  bytes_ -= segment.bytes();
  shelf.segments.fetch_sub(1, std::memory_order_relaxed);
  segments_[Layout::SlotOf(segment.listed.id())].reset();
}

absl::StatusOr<size_t> ArenaState::Trim() {
  TENON_RETURN_IF_ERROR(CheckUsable());
  CallShortageHook();
  std::lock_guard lock(ledger_mutex_);
  TakeBackAll();
  return RetireIdleSegments();
}

}  // namespace tenon
