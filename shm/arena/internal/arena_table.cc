// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/arena_table.h"

#include <string.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/copy_from_shared.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {
namespace {

using Layout = ArenaTableLayout;

constexpr char kWhat[] = "a received table of an arena";

void Publish(uint64_t& word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release);
}

uint64_t IdAndState(uint32_t id, ArenaSegment::State state) {
  return uint64_t{id} << 32 | state;
}

// Both words of a block, for all blocks of a segment.
absl::Status ReserveWords(int fd, uint64_t max_blocks,
                          const ArenaSegment& segment) {
  const size_t offset = static_cast<size_t>(segment.first_block) * 8;
  const size_t size = static_cast<size_t>(segment.block_count) * 8;
  TENON_RETURN_IF_ERROR(
      ReserveControlMemory(fd, {Layout::kGenerationsAt + offset, size}, kWhat));
  return ReserveControlMemory(fd, {Layout::StatesAt(max_blocks) + offset, size},
                              kWhat);
}

}  // namespace

bool ArenaSegment::IsSane(uint64_t max_blocks) const {
  uint64_t bytes;
  return block_count > 0 && block_count <= max_blocks &&
         first_block <= max_blocks - block_count && block_bytes > 0 &&
         !__builtin_mul_overflow(block_bytes, block_count, &bytes) &&
         bytes <= uint64_t{1} << 62;
}

absl::StatusOr<ArenaTable> ArenaTable::Create(const ArenaHeader& header) {
  if (header.max_blocks == 0 || header.max_blocks > Layout::kMaxBlocks ||
      header.max_blocks % ColumnLayout::kCellsAlignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_blocks of ", header.max_blocks,
                     " is invalid for an arena; want 1 to ", Layout::kMaxBlocks,
                     ", in multiples of ", ColumnLayout::kCellsAlignment));
  }
  TENON_ASSIGN_OR_RETURN(
      ControlMemory memory,
      ControlMemory::Create(Layout::Bytes(header.max_blocks), Layout::kLabel));
  TENON_RETURN_IF_ERROR(memory.Reserve({0, Layout::kGenerationsAt}));
  memcpy(memory.data(), &header, sizeof(header));
  return ArenaTable(header, std::move(memory));
}

ArenaSegment* ArenaTable::SlotOf(uint32_t segment_id) const {
  return reinterpret_cast<ArenaSegment*>(memory_.data() + Layout::kSegmentsAt) +
         Layout::SlotOf(segment_id);
}

absl::Status ArenaTable::Add(const ArenaSegment& segment) {
  TENON_RETURN_IF_ERROR(
      ReserveWords(memory_.fd(), header_.max_blocks, segment));
  ArenaSegment* slot = SlotOf(segment.id());
  // A reader that sees a new number sees that the earlier ones were retired.
  Publish(slot->block_bytes, segment.block_bytes);
  Publish(slot->block_count, segment.block_count);
  Publish(slot->first_block, segment.first_block);
  Publish(slot->file.device, segment.file.device);
  Publish(slot->file.inode, segment.file.inode);
  Publish(slot->id_and_state, segment.id_and_state);
  TENON_CRASH_POINT("arena_table.segment_added");
  return absl::OkStatus();
}

void ArenaTable::Retire(uint32_t segment_id) {
  Publish(SlotOf(segment_id)->id_and_state,
          IdAndState(segment_id, ArenaSegment::kRetired));
  TENON_CRASH_POINT("arena_table.segment_retired");
}

void ArenaTable::Close() {
  Publish(reinterpret_cast<ArenaHeader*>(memory_.data())->closed, 1);
  TENON_CRASH_POINT("arena_table.closed");
}

absl::StatusOr<ArenaTableView> ArenaTableView::Adopt(UniqueFd fd) {
  const absl::StatusOr<size_t> checked = CheckIsControlMemory(fd.get(), kWhat);
  if (!checked.ok()) {
    CloseReceived(std::move(fd));
    return checked.status();
  }
  const size_t size = *checked;
  if (size < Layout::kGenerationsAt) {
    return absl::InvalidArgumentError(absl::StrCat(kWhat, " has only ", size,
                                                   " bytes; want at least ",
                                                   Layout::kGenerationsAt));
  }
  TENON_RETURN_IF_ERROR(
      ReserveControlMemory(fd.get(), {0, Layout::kGenerationsAt}, kWhat));
  TENON_ASSIGN_OR_RETURN(ControlView view,
                         ControlView::Adopt(fd.get(), {0, size}, kWhat));
  const auto header =
      CopyFromShared(reinterpret_cast<const ArenaHeader*>(view.data()));
  if (header.magic != ArenaHeader::kMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat(kWhat, " has bad magic 0x", absl::Hex(header.magic)));
  }
  if (header.version != ColumnLayout::Version()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kWhat, " is of version ", header.version, "; this program has version ",
        ColumnLayout::Version(), ": build both from the same Tenon"));
  }
  if (header.max_blocks == 0 || header.max_blocks > Layout::kMaxBlocks ||
      header.max_blocks % ColumnLayout::kCellsAlignment != 0 ||
      Layout::Bytes(header.max_blocks) != size) {
    return absl::InvalidArgumentError(
        absl::StrCat(kWhat, ": its size of ", size, " bytes does not match ",
                     header.max_blocks, " blocks"));
  }
  return ArenaTableView(header, std::move(fd), std::move(view));
}

bool ArenaTableView::IsClosed() const {
  const auto* header = reinterpret_cast<const ArenaHeader*>(view_.data());
  return __atomic_load_n(&header->closed, __ATOMIC_ACQUIRE) != 0;
}

std::string ArenaTableView::name() const {
  std::string name(header_.name, strnlen(header_.name, sizeof(header_.name)));
  for (char& c : name) {
    if (!absl::ascii_isprint(static_cast<unsigned char>(c))) c = '?';
  }
  return name;
}

ArenaSegment ArenaTableView::InSlot(uint32_t slot) const {
  const auto* listed = reinterpret_cast<const ArenaSegment*>(
                           view_.data() + Layout::kSegmentsAt) +
                       slot;
  // The other words are written before this word marks them valid, and not
  // again before it marks them invalid.
  const uint64_t before =
      __atomic_load_n(&listed->id_and_state, __ATOMIC_ACQUIRE);
  const ArenaSegment segment = CopyFromShared(listed);
  const bool whole = segment.id_and_state == before &&
                     segment.state() == ArenaSegment::kLive &&
                     IsLive(segment.id()) &&
                     Layout::SlotOf(segment.id()) == slot &&
                     segment.IsSane(header_.max_blocks);
  return whole ? segment : ArenaSegment();
}

absl::StatusOr<ArenaSegment> ArenaTableView::Peek(uint32_t segment_id) const {
  const ArenaSegment segment = InSlot(Layout::SlotOf(segment_id));
  if (segment.state() != ArenaSegment::kLive || segment.id() != segment_id) {
    return absl::NotFoundError(absl::StrCat("arena '", name(),
                                            "' has no segment ", segment_id,
                                            ", or has retired it"));
  }
  return segment;
}

absl::StatusOr<ArenaSegment> ArenaTableView::Find(uint32_t segment_id) const {
  TENON_ASSIGN_OR_RETURN(const ArenaSegment segment, Peek(segment_id));
  TENON_RETURN_IF_ERROR(ReserveWords(fd_.get(), header_.max_blocks, segment));
  return segment;
}

bool ArenaTableView::IsLive(uint32_t segment_id) const {
  const auto* slot = reinterpret_cast<const ArenaSegment*>(
                         view_.data() + Layout::kSegmentsAt) +
                     Layout::SlotOf(segment_id);
  const uint64_t now = __atomic_load_n(&slot->id_and_state, __ATOMIC_ACQUIRE);
  return now == IdAndState(segment_id, ArenaSegment::kLive);
}

BlockState ArenaTableView::StateOf(uint64_t block) const {
  const SharedWord<uint64_t>* states =
      WordsAt(Layout::StatesAt(header_.max_blocks));
  return BlockState::Unpack(
      StdAtomics::Load(states[block], std::memory_order_relaxed));
}

uint64_t CoarseNowMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000 +
         static_cast<uint64_t>(now.tv_nsec) / 1000000;
}

}  // namespace tenon
