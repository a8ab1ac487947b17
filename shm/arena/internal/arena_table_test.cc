// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/arena_table.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/control_memory.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using enum absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Layout = ArenaTableLayout;

constexpr uint64_t kTableBlocks = 8192;

ArenaHeader Header() {
  ArenaHeader header;
  header.arena = {1, 2};
  header.max_blocks = kTableBlocks;
  strcpy(header.name, "frames");
  return header;
}

ArenaSegment Live(uint32_t id, uint64_t first, uint64_t count) {
  return {.id_and_state = uint64_t{id} << 32 | ArenaSegment::kLive,
          .block_bytes = 4096,
          .block_count = count,
          .first_block = first};
}

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

absl::StatusOr<ArenaTableView> View(const ArenaTable& table) {
  return ArenaTableView::Adopt(Duplicate(table.fd()));
}

// Control memory with an arbitrary header.
absl::Status AdoptHeader(const ArenaHeader& header, size_t bytes) {
  const ControlMemory memory = ControlMemory::Create(bytes, "test").value();
  EXPECT_THAT(memory.Reserve({0, sizeof(header)}), IsOk());
  std::memcpy(memory.data(), &header, sizeof(header));
  return ArenaTableView::Adopt(Duplicate(memory.fd())).status();
}

TEST(ArenaTableTest, ReaderSeesWhatTheOwnerListed) {
  TENON_ASSERT_OK_AND_ASSIGN(ArenaTable table, ArenaTable::Create(Header()));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTableView view, View(table));
  EXPECT_EQ(view.header().arena, (RandomId{1, 2}));
  EXPECT_EQ(view.name(), "frames");
  EXPECT_THAT(view.Find(7), StatusIs(kNotFound, HasSubstr("'frames'")));

  ASSERT_THAT(table.Add(Live(7, 100, 20)), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaSegment found, view.Find(7));
  EXPECT_EQ(found.id(), 7u);
  EXPECT_EQ(found.block_bytes, 4096u);
  EXPECT_EQ(found.block_count, 20u);
  EXPECT_EQ(found.first_block, 100u);
  EXPECT_TRUE(view.IsLive(7));
  StdAtomics::Store(table.generations()[119], uint64_t{3},
                    std::memory_order_seq_cst);
  EXPECT_EQ(
      StdAtomics::Load(view.generations()[119], std::memory_order_relaxed), 3u);
  table.SetState(119, BlockState::kReleased, 1234);
  EXPECT_EQ(view.StateOf(119).kind, BlockState::kReleased);
  EXPECT_EQ(view.StateOf(119).since_ms, 1234u);
  EXPECT_EQ(table.StateOf(119).kind, BlockState::kReleased);
}

TEST(ArenaTableTest, RetiredSegmentsAreGone) {
  TENON_ASSERT_OK_AND_ASSIGN(ArenaTable table, ArenaTable::Create(Header()));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTableView view, View(table));
  ASSERT_THAT(table.Add(Live(7, 0, 1)), IsOk());
  table.Retire(7);
  EXPECT_FALSE(view.IsLive(7));
  EXPECT_THAT(view.Find(7), StatusIs(kNotFound));
  EXPECT_NE(view.InSlot(7).state(), ArenaSegment::kLive);
  // The next in the same slot has another id.
  const uint32_t next = 7 + Layout::kMaxSegments;
  ASSERT_THAT(table.Add(Live(next, 0, 1)), IsOk());
  EXPECT_THAT(view.Find(7), StatusIs(kNotFound));
  EXPECT_THAT(view.Find(next), IsOk());
  EXPECT_EQ(view.InSlot(7).id(), next);
}

TEST(ArenaTableTest, SaysWhenItIsClosed) {
  TENON_ASSERT_OK_AND_ASSIGN(ArenaTable table, ArenaTable::Create(Header()));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTableView view, View(table));
  EXPECT_FALSE(view.IsClosed());
  table.Close();
  EXPECT_TRUE(view.IsClosed());
}

TEST(ArenaTableTest, TakesMemoryOnlyForBlocksThatThereAre) {
  ArenaHeader header = Header();
  header.max_blocks = Layout::kMaxBlocks;
  TENON_ASSERT_OK_AND_ASSIGN(ArenaTable table, ArenaTable::Create(header));
  const auto bytes_in_use = [&] {
    struct stat info;
    EXPECT_EQ(fstat(table.fd(), &info), 0);
    return static_cast<size_t>(info.st_blocks) * 512;
  };
  EXPECT_EQ(bytes_in_use(), Layout::kGenerationsAt);
  ASSERT_THAT(table.Add(Live(1, 512, 512)), IsOk());
  EXPECT_EQ(bytes_in_use(), Layout::kGenerationsAt + 2 * 4096);
}

TEST(ArenaTableTest, NumbersOfBlocksThatCannotBeAreRefused) {
  for (const uint64_t blocks :
       {uint64_t{0}, uint64_t{1}, kTableBlocks + 1,
        Layout::kMaxBlocks + kTableBlocks, UINT64_MAX}) {
    ArenaHeader header = Header();
    header.max_blocks = blocks;
    EXPECT_THAT(ArenaTable::Create(header),
                StatusIs(kInvalidArgument, HasSubstr(absl::StrCat(blocks))));
  }
}

TEST(ArenaTableViewTest, HeadersThatCannotBeAreRefused) {
  const size_t bytes = Layout::Bytes(kTableBlocks);
  EXPECT_THAT(AdoptHeader(Header(), bytes), IsOk());
  ArenaHeader header = Header();
  header.magic ^= 1;
  EXPECT_THAT(AdoptHeader(header, bytes), StatusIs(kInvalidArgument));
  header = Header();
  header.version = 9;
  EXPECT_THAT(AdoptHeader(header, bytes),
              StatusIs(kInvalidArgument,
                       AllOf(HasSubstr("version 9"), HasSubstr("version 4"))));
  for (const uint64_t blocks :
       {uint64_t{0}, uint64_t{1}, kTableBlocks - 1, 2 * kTableBlocks,
        Layout::kMaxBlocks + kTableBlocks, uint64_t{1} << 61, UINT64_MAX}) {
    header = Header();
    header.max_blocks = blocks;
    EXPECT_THAT(AdoptHeader(header, bytes), StatusIs(kInvalidArgument))
        << blocks;
  }
  EXPECT_THAT(AdoptHeader(Header(), bytes - 4096), StatusIs(kInvalidArgument));
  EXPECT_THAT(AdoptHeader(Header(), bytes + 4096), StatusIs(kInvalidArgument));
  EXPECT_THAT(AdoptHeader(Header(), 4096),
              StatusIs(kInvalidArgument, HasSubstr("4096 bytes")));
}

TEST(ArenaTableViewTest, NamesAreMadePrintable) {
  ArenaHeader header = Header();
  std::memset(header.name, '\n', sizeof(header.name));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTable table,
                             ArenaTable::Create(header));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTableView view, View(table));
  EXPECT_EQ(view.name(), std::string(sizeof(header.name), '?'));
}

TEST(ArenaTableViewTest, SegmentsThatCannotBeAreNotFound) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto memory,
      ControlMemory::Create(Layout::Bytes(kTableBlocks), "x"));
  ASSERT_THAT(memory.Reserve({0, Layout::kGenerationsAt}), IsOk());
  const ArenaHeader header = Header();
  std::memcpy(memory.data(), &header, sizeof(header));
  TENON_ASSERT_OK_AND_ASSIGN(const auto view,
                             ArenaTableView::Adopt(Duplicate(memory.fd())));
  auto* const slot =
      reinterpret_cast<ArenaSegment*>(memory.data() + Layout::kSegmentsAt) + 7;
  const ArenaSegment good = Live(7, kTableBlocks - 1, 1);
  *slot = good;
  EXPECT_THAT(view.Find(7), IsOk());
  const auto refuses = [&](const ArenaSegment& listed) {
    *slot = listed;
    return !view.Find(7).ok() && view.InSlot(7).state() != ArenaSegment::kLive;
  };
  for (const uint64_t first : {kTableBlocks, kTableBlocks + 1, UINT64_MAX}) {
    EXPECT_TRUE(refuses(Live(7, first, 1))) << first;
  }
  for (const uint64_t count : {uint64_t{0}, uint64_t{2}, UINT64_MAX}) {
    EXPECT_TRUE(refuses(Live(7, kTableBlocks - 1, count))) << count;
  }
  for (const uint64_t bytes : {uint64_t{0}, UINT64_MAX, uint64_t{1} << 63}) {
    ArenaSegment listed = good;
    listed.block_bytes = bytes;
    EXPECT_TRUE(refuses(listed)) << bytes;
  }
  ArenaSegment overflowing = Live(7, 0, kTableBlocks);
  overflowing.block_bytes = uint64_t{1} << 52;
  EXPECT_TRUE(refuses(overflowing));
  EXPECT_TRUE(refuses(Live(8, 0, 1)));
  for (const uint64_t state : {0, 2, 3}) {
    ArenaSegment listed = good;
    listed.id_and_state = uint64_t{7} << 32 | state;
    EXPECT_TRUE(refuses(listed)) << state;
  }
}

TEST(BlockStateTest, PacksBothNumbers) {
  for (const uint64_t since : {uint64_t{0}, uint64_t{1}, UINT64_MAX >> 2}) {
    const BlockState state =
        BlockState::Unpack(BlockState::Pack(BlockState::kInUse, since));
    EXPECT_EQ(state.kind, BlockState::kInUse);
    EXPECT_EQ(state.since_ms, since);
  }
}

}  // namespace
}  // namespace tenon
