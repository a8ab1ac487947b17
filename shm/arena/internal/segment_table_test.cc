// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/segment_table.h"

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/mapped_memory.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/attachments.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using enum absl::StatusCode;
using ::testing::HasSubstr;

constexpr RandomId kTableArena = {1, 2};
constexpr size_t kPage = 4096;

class SegmentTableTest : public testing::Test {
 protected:
  SegmentTableTest() {
    options_.segment.strategy = SharingStrategy::kFileDescriptor;
    options_.max_blocks = 8192;
    options_.segment_bytes = 4 * kPage;
  }

  SegmentTable NewSegments() {
    return {options_, store_, table_, attachments_};
  }
  ArenaSegment InSlot(uint32_t slot) const {
    return ArenaTableView::Adopt(
               UniqueFd(fcntl(table_.fd(), F_DUPFD_CLOEXEC, 0)))
        .value()
        .InSlot(slot);
  }

  ArenaOptions options_;
  MappedStore store_{
      {.segment = {.strategy = SharingStrategy::kFileDescriptor}}};
  ArenaTable table_ =
      ArenaTable::Create({.arena = kTableArena, .max_blocks = 8192}).value();
  Attachments attachments_ = Attachments::Create(kTableArena, 8192).value();
};

TEST_F(SegmentTableTest, EachFurtherSegmentOfASizeIsTwiceAsLarge) {
  SegmentTable segments = NewSegments();
  std::vector<uint64_t> counts;
  for (int i = 0; i < 3; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const OwnedSegment* made, segments.Add(kPage));
    counts.push_back(made->listed.block_count);
  }
  EXPECT_THAT(counts, testing::ElementsAre(4, 8, 16));
  TENON_ASSERT_OK_AND_ASSIGN(const OwnedSegment* other,
                             segments.Add(2 * kPage));
  EXPECT_EQ(other->listed.block_count, 2u);
  EXPECT_EQ(segments.bytes(), 32 * kPage);
}

TEST_F(SegmentTableTest, BlocksAreNumberedThroughAllSegments) {
  SegmentTable segments = NewSegments();
  TENON_ASSERT_OK_AND_ASSIGN(const OwnedSegment* first, segments.Add(kPage));
  TENON_ASSERT_OK_AND_ASSIGN(const OwnedSegment* second, segments.Add(kPage));
  const OwnedBlock& block = second->blocks[1];
  EXPECT_EQ(block.number, first->listed.block_count + 1);
  EXPECT_EQ(block.segment, second);
  EXPECT_EQ(block.data(), second->memory->data() + kPage);
  EXPECT_EQ(block.size(), kPage);
}

TEST_F(SegmentTableTest, TheQuotaBoundsTheLastSegment) {
  options_.quota_bytes = 5 * kPage;
  SegmentTable segments = NewSegments();
  ASSERT_THAT(segments.Add(kPage), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const OwnedSegment* last, segments.Add(kPage));
  EXPECT_EQ(last->listed.block_count, 1u);
  EXPECT_THAT(segments.Add(kPage),
              StatusIs(kResourceExhausted, HasSubstr("quota")));
  EXPECT_EQ(segments.bytes(), options_.quota_bytes);
}

TEST_F(SegmentTableTest, TheNumberOfBlocksBoundsTheLastSegment) {
  options_.segment_bytes = 5000 * 64;
  SegmentTable segments = NewSegments();
  ASSERT_THAT(segments.Add(64), IsOk());
  // 3,192 numbers are left: a quarter of 10,000 blocks.
  TENON_ASSERT_OK_AND_ASSIGN(const OwnedSegment* last, segments.Add(64));
  EXPECT_EQ(last->listed.block_count, 2500u);
  while (segments.Add(64).ok()) {
  }
  EXPECT_THAT(segments.Add(64),
              StatusIs(kResourceExhausted, HasSubstr("max_blocks")));
  EXPECT_EQ(segments.bytes(), 8192u * 64);
}

TEST_F(SegmentTableTest, ARetiredSegmentLeavesItsSlotAndItsNumbers) {
  SegmentTable segments = NewSegments();
  TENON_ASSERT_OK_AND_ASSIGN(const OwnedSegment* made, segments.Add(kPage));
  TENON_ASSERT_OK_AND_ASSIGN(const OwnedSegment* stays, segments.Add(kPage));
  const ArenaSegment before = made->listed;
  EXPECT_EQ(InSlot(0).state(), ArenaSegment::kLive);

  EXPECT_EQ(segments.RetireIf(
                [&](const OwnedSegment& segment) { return &segment != stays; }),
            4 * kPage);
  EXPECT_NE(InSlot(0).state(), ArenaSegment::kLive);
  EXPECT_EQ(InSlot(1).state(), ArenaSegment::kLive);
  EXPECT_EQ(segments.bytes(), 8 * kPage);

  TENON_ASSERT_OK_AND_ASSIGN(const OwnedSegment* next, segments.Add(2 * kPage));
  EXPECT_EQ(next->listed.first_block, before.first_block);
  EXPECT_NE(next->listed.id(), before.id());
  EXPECT_EQ(InSlot(0).id(), next->listed.id());
}

TEST_F(SegmentTableTest, ReportsSegmentsAndStatesOfBlocks) {
  SegmentTable segments = NewSegments();
  TENON_ASSERT_OK_AND_ASSIGN(const OwnedSegment* made, segments.Add(kPage));
  table_.SetState(made->blocks[1].number, BlockState::kInUse, 7);
  table_.SetState(made->blocks[2].number, BlockState::kReleased, 7);
  ArenaUse use;
  segments.Report(use);
  EXPECT_EQ(use.segments, 1u);
  EXPECT_EQ(use.segment_bytes, 4 * kPage);
  EXPECT_EQ(use.blocks_free, 2u);
  EXPECT_EQ(use.blocks_in_use, 1u);
  EXPECT_EQ(use.blocks_released, 1u);
}

}  // namespace
}  // namespace tenon
