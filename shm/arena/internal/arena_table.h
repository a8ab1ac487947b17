// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArenaTable: the owner's public record of an arena: its segments, and the
// generation and state of each block. Control memory: the owner writes it, all
// other processes can only read.
//
//   header, waits | segments | generations: a word a block | states: the same
//
// Internal to arenas and reports on them.

#ifndef TENON_SHM_ARENA_INTERNAL_ARENA_TABLE_H_
#define TENON_SHM_ARENA_INTERNAL_ARENA_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/file_identity.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {

// Written before the table is shared, except `closed` and `refused`.
struct ArenaHeader {
  static constexpr uint64_t kMagic = 0x3130616e65726154;  // "Tarena01".

  uint64_t magic = kMagic;
  uint64_t version = ColumnLayout::Version();
  RandomId arena;
  uint64_t owner_pid = 0;  // In the owner's pid namespace.
  uint64_t max_blocks = 0;
  uint64_t quota_bytes = 0;
  uint64_t shared_writable = 0;  // SegmentKind::kSharedWritable.
  uint64_t protect = 0;          // ArenaDebug::kProtect.
  uint64_t file_system = 0;      // SharingStrategy::kFileSystem.
  // Of the inbox. Prevents an offer with another socket.
  uint64_t inbox_cookie = 0;
  uint64_t closed = 0;  // 1: the owner never reclaims a block again.
  // The number of attach messages that the owner has refused. A process that
  // sees it change polls its lease: so a claim detects a refusal without a
  // system call.
  uint64_t refused = 0;
  // Of the memory of its blocks (memory_kind_id.h).
  uint64_t kind = 0;
  DeviceIdentity device = {};
  char name[40] = {};
};

// One segment. The slot is reused when the segment is gone, the id is not.
struct ArenaSegment {
  uint64_t id_and_state = 0;  // {id:32, state:32}; 0: never used.
  uint64_t block_bytes = 0;
  uint64_t block_count = 0;
  uint64_t first_block = 0;
  FileIdentity file;  // Its memory. Prevents an offer with other memory.

  enum State : uint32_t { kLive = 1, kRetired = 2 };
  uint32_t id() const { return static_cast<uint32_t>(id_and_state >> 32); }
  State state() const { return static_cast<State>(id_and_state & 0xffffffff); }
  // Whether an arena of `max_blocks` blocks can have such a segment.
  bool IsSane(uint64_t max_blocks) const;
};

// The state of one block, and the time of its allocation: {state:2,
// milliseconds:62} of CLOCK_MONOTONIC; 0 if it is free.
struct BlockState {
  enum Kind : uint64_t {
    kFree = 0,
    kInUse = 1,     // The owner holds it.
    kReleased = 2,  // The owner has released it; not reclaimed yet.
  };
  Kind kind = kFree;
  uint64_t since_ms = 0;

  static constexpr uint64_t Pack(Kind kind, uint64_t since_ms) {
    return uint64_t{kind} | since_ms << 2;
  }
  static constexpr BlockState Unpack(uint64_t word) {
    return {static_cast<Kind>(word & 3), word >> 2};
  }
};

struct ArenaTableLayout {
  static constexpr char kLabel[] = "tenon.arena";
  static constexpr uint32_t kMaxSegments = 1024;
  static constexpr uint64_t kMaxBlocks = uint64_t{1} << 24;
  static constexpr size_t kWaitsAt = 1024;  // TimeWords
  static constexpr size_t kSegmentsAt = 4096;
  static constexpr size_t kGenerationsAt = size_t{64} << 10;

  static constexpr size_t StatesAt(uint64_t max_blocks) {
    return kGenerationsAt + static_cast<size_t>(max_blocks) * 8;
  }
  static constexpr size_t Bytes(uint64_t max_blocks) {
    return StatesAt(max_blocks) + static_cast<size_t>(max_blocks) * 8;
  }
  static constexpr uint32_t SlotOf(uint32_t segment_id) {
    return segment_id % kMaxSegments;
  }
};
static_assert(std::is_trivially_copyable_v<ArenaHeader>);
static_assert(std::is_trivially_copyable_v<ArenaSegment>);
static_assert(sizeof(ArenaHeader) <= ArenaTableLayout::kWaitsAt);
static_assert(ArenaTableLayout::kWaitsAt + sizeof(TimeWords) <=
              ArenaTableLayout::kSegmentsAt);
static_assert(ArenaTableLayout::kSegmentsAt +
                  ArenaTableLayout::kMaxSegments * sizeof(ArenaSegment) <=
              ArenaTableLayout::kGenerationsAt);

// The owner's end.
// Ownership: owns the memory. Threads: thread-compatible, except the words.
class ArenaTable {
 public:
  // Errors: kResourceExhausted naming the limit.
  static absl::StatusOr<ArenaTable> Create(const ArenaHeader& header);

  // To send to processes that attach; still owned here.
  int fd() const { return memory_.fd(); }
  const ArenaHeader& header() const { return header_; }

  // Lists a segment. Allocates memory for the words of its blocks.
  // Errors: kResourceExhausted naming the limit; the segment is not listed
  // then.
  absl::Status Add(const ArenaSegment& segment);
  // Publishes that its memory can be unmapped: no process holds a block of it.
  void Retire(uint32_t segment_id);
  // Publishes that no block will be reclaimed any more.
  void Close();

  // Indexed by block, for blocks of listed segments. Only FreeTest writes the
  // generations.
  SharedWord<uint64_t>* generations() const {
    return WordsAt(ArenaTableLayout::kGenerationsAt);
  }
  // Of calls that waited for memory; written by one thread at a time.
  TimeWords& waits() const {
    return *reinterpret_cast<TimeWords*>(memory_.data() +
                                         ArenaTableLayout::kWaitsAt);
  }
  // ArenaHeader::refused.
  SharedWord<uint64_t>* refused() const {
    return WordsAt(offsetof(ArenaHeader, refused));
  }
  BlockState StateOf(uint32_t block) const {
    return BlockState::Unpack(
        StdAtomics::Load(states_[block], std::memory_order_relaxed));
  }
  void SetState(uint32_t block, BlockState::Kind kind, uint64_t now_ms) const {
    StdAtomics::Store(states_[block], BlockState::Pack(kind, now_ms),
                      std::memory_order_relaxed);
  }

 private:
  ArenaTable(const ArenaHeader& header, ControlMemory memory)
      : header_(header),
        memory_(std::move(memory)),
        states_(WordsAt(ArenaTableLayout::StatesAt(header.max_blocks))) {}
  SharedWord<uint64_t>* WordsAt(size_t offset) const {
    return reinterpret_cast<SharedWord<uint64_t>*>(memory_.data() + offset);
  }
  ArenaSegment* SlotOf(uint32_t segment_id) const;

  ArenaHeader header_;
  ControlMemory memory_;
  SharedWord<uint64_t>* states_;
};

// The end of every other process.
// Ownership: owns a mapping and the descriptor. Threads: const calls may run
//   concurrently. Trust: all results are checked, except the words of blocks.
class ArenaTableView {
 public:
  // Takes over a received descriptor.
  // Errors: kInvalidArgument if it is not an arena's table, or of another
  // version, which is named; as ControlView::Adopt().
  static absl::StatusOr<ArenaTableView> Adopt(UniqueFd fd);

  const ArenaHeader& header() const { return header_; }
  std::string name() const;
  // To forward; still owned here.
  int fd() const { return fd_.get(); }

  // A live segment. After Find() its blocks' words may be read.
  // Errors: kNotFound if the id is not listed, the segment is retired, or its
  // entry is malformed; Find() also kResourceExhausted.
  absl::StatusOr<ArenaSegment> Peek(uint32_t segment_id) const;
  absl::StatusOr<ArenaSegment> Find(uint32_t segment_id) const;
  bool IsClosed() const;
  uint64_t refused() const {
    return StdAtomics::Load(*WordsAt(offsetof(ArenaHeader, refused)),
                            std::memory_order_acquire);
  }
  // Whether the owner still lists it as live.
  bool IsLive(uint32_t segment_id) const;
  // The segment in a slot of the table, as listed, checked; not live if the
  // slot is empty or the entry malformed.
  ArenaSegment InSlot(uint32_t slot) const;

  const SharedWord<uint64_t>* generations() const {
    return WordsAt(ArenaTableLayout::kGenerationsAt);
  }
  BlockState StateOf(uint64_t block) const;

 private:
  ArenaTableView(const ArenaHeader& header, UniqueFd fd, ControlView view)
      : header_(header), fd_(std::move(fd)), view_(std::move(view)) {}
  const SharedWord<uint64_t>* WordsAt(size_t offset) const {
    return reinterpret_cast<const SharedWord<uint64_t>*>(view_.data() + offset);
  }

  ArenaHeader header_;
  UniqueFd fd_;
  ControlView view_;
};

// Milliseconds of CLOCK_MONOTONIC, at the resolution of the kernel's tick:
// cheap.
uint64_t CoarseNowMs();

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_ARENA_TABLE_H_
