// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/attached_arena.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using enum absl::StatusCode;
using ::testing::HasSubstr;

// An arena whose owner has a block; this process is attached to it.
class AttachedArenaTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  AttachedArenaTest() { block_.data()[0] = std::byte{42}; }

  std::shared_ptr<Arena> MakeArena(SegmentKind kind) {
    return CreateArena({.name = "frames",
                        .segment = {.strategy = GetParam()},
                        .kind = kind,
                        .max_blocks = 8192})
        .value();
  }
  size_t BlocksReleased() { return arena_->Use().blocks_released; }

  const std::shared_ptr<Arena> arena_ = MakeArena(SegmentKind::kOwnerWritten);
  Block block_ = arena_->TryAllocate(4096).value();
  const BlockDescriptor message_ = block_.Describe().value();
  const ArenaOffer offer_ = arena_->Offer(block_).value();
  std::shared_ptr<AttachedArena> attached_ = AttachTo(offer_).value();
};

TEST_P(AttachedArenaTest, KnowsWhoseItIs) {
  EXPECT_EQ(attached_->id(), arena_->id());
  EXPECT_EQ(attached_->name(), "frames");
}

TEST_P(AttachedArenaTest, EveryWrongNumberIsRefused) {
  const auto claim = [&](auto change) {
    BlockDescriptor wrong = message_;
    change(wrong);
    return attached_->Claim(wrong).status();
  };
  using D = BlockDescriptor;
  EXPECT_THAT(claim([](D& d) { d.arena.low ^= 1; }), StatusIs(kNotFound));
  EXPECT_THAT(claim([](D& d) { d.arena.high ^= 1; }), StatusIs(kNotFound));
  for (const uint32_t more :
       {1u, ArenaTableLayout::kMaxSegments, 0x80000000u}) {
    EXPECT_THAT(claim([&](D& d) { d.segment += more; }), StatusIs(kNotFound));
  }
  const uint32_t first = message_.block;
  for (const uint32_t block : {first + 64, first - 1, 8191u, 8192u, ~0u}) {
    EXPECT_THAT(claim([&](D& d) { d.block = block; }),
                StatusIs(kInvalidArgument, HasSubstr("'frames'")))
        << block;
  }
  for (const uint64_t offset : {uint64_t{1}, uint64_t{4096}, UINT64_MAX}) {
    EXPECT_THAT(claim([&](D& d) { d.offset = offset; }),
                StatusIs(kInvalidArgument));
  }
  for (const uint64_t size : {uint64_t{4097}, uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_THAT(claim([&](D& d) { d.size = size; }),
                StatusIs(kInvalidArgument));
  }
  EXPECT_THAT(claim([](D& d) {
                d = {d.arena,      d.segment,  d.block,
                     d.generation, UINT64_MAX, UINT64_MAX};
              }),
              StatusIs(kInvalidArgument));
  for (const uint64_t more : {uint64_t{1}, UINT64_MAX, uint64_t{1} << 32}) {
    EXPECT_THAT(claim([&](D& d) { d.generation += more; }),
                StatusIs(kDataLoss, HasSubstr("was reclaimed")));
  }
  // And none of them has a hold now.
  block_.Reset();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(BlocksReleased(), 0u);
}

TEST_P(AttachedArenaTest, PartsOfABlockAreTheBytesThatWereNamed) {
  for (size_t i = 0; i < 4096; ++i) block_.data()[i] = std::byte(i * 7);
  for (const auto& [offset, size] : std::vector<std::pair<size_t, size_t>>{
           {0, 4096}, {0, 0}, {4096, 0}, {4095, 1}, {100, 50}}) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto part, block_.Describe(offset, size));
    TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached_->Claim(part));
    ASSERT_EQ(hold.bytes().size(), size);
    EXPECT_EQ(std::memcmp(hold.data(), block_.data() + offset, size), 0);
    EXPECT_EQ(hold.descriptor(), part);
  }
  for (const auto& [offset, size] : std::vector<std::pair<size_t, size_t>>{
           {1, 4096}, {4097, 0}, {0, 4097}, {SIZE_MAX, 2}, {2, SIZE_MAX}}) {
    EXPECT_THAT(block_.Describe(offset, size), StatusIs(kInvalidArgument));
  }
}

TEST_P(AttachedArenaTest, HoldsMoveAndAreReleasedOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(Hold hold, attached_->Claim(message_));
  TENON_ASSERT_OK_AND_ASSIGN(Hold second, attached_->Claim(message_));
  block_.Reset();
  const auto is_held = [&] {
    EXPECT_THAT(arena_->Trim(), IsOk());
    return BlocksReleased() == 1;
  };
  Hold moved = std::move(hold);
  EXPECT_EQ(hold.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(hold.size(), 0u);
  EXPECT_EQ(hold.arena(), nullptr);
  hold.Reset();
  EXPECT_TRUE(is_held());
  EXPECT_EQ(moved.data()[0], std::byte{42});
  Hold& same = moved;
  moved = std::move(same);
  EXPECT_EQ(moved.data()[0], std::byte{42});
  moved = std::move(second);  // Releases its former hold.
  EXPECT_TRUE(is_held());
  moved.Reset();
  moved.Reset();
  EXPECT_FALSE(is_held());
}

TEST_P(AttachedArenaTest, HoldKeepsTheArenaAttached) {
  TENON_ASSERT_OK_AND_ASSIGN(Hold hold, attached_->Claim(message_));
  attached_.reset();
  block_.Reset();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().attached, 1u);
  EXPECT_EQ(hold.data()[0], std::byte{42});
  hold.Reset();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().attached, 0u);
  EXPECT_EQ(arena_->Use().segments, 0u);
}

TEST_P(AttachedArenaTest, HeldMemoryOutlivesTheOwner) {
  auto arena = MakeArena(SegmentKind::kOwnerWritten);
  TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(100));
  block.data()[0] = std::byte{7};
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, block.Describe());
  TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena->Offer(block));
  TENON_ASSERT_OK_AND_ASSIGN(auto attached, AttachTo(offer));
  TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached->Claim(message));
  block.Reset();
  arena.reset();
  EXPECT_EQ(hold.data()[0], std::byte{7});
  // It is never reclaimed, so other processes can still claim it.
  EXPECT_THAT(attached->Claim(message), IsOk());
  // The name has been removed.
  if (GetParam() == SharingStrategy::kFileSystem) return;
  TENON_ASSERT_OK_AND_ASSIGN(const auto forward,
                             attached->Offer(message.segment));
  TENON_ASSERT_OK_AND_ASSIGN(auto late, AttachTo(forward));
  EXPECT_THAT(late->Claim(message), IsOk());
}

TEST_P(AttachedArenaTest, SegmentsAreAddedAndForwarded) {
  TENON_ASSERT_OK_AND_ASSIGN(Block other, arena_->TryAllocate(100'000));
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, other.Describe());
  EXPECT_THAT(attached_->Claim(message), StatusIs(kNotFound));
  EXPECT_THAT(attached_->Offer(message.segment), StatusIs(kNotFound));
  TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena_->Offer(other));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(attached_->Add(offer.bytes, Travel(offer.fds)), IsOk());
  }
  EXPECT_THAT(attached_->Claim(message), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto forwarded,
                             attached_->Offer(message.segment));
  EXPECT_EQ(forwarded.bytes, offer.bytes);
  TENON_ASSERT_OK_AND_ASSIGN(auto third, AttachTo(forwarded));
  EXPECT_THAT(third->Claim(message), IsOk());
  // One attachment: blocks of a segment mapped for one can be claimed through
  // all.
  EXPECT_THAT(third->Claim(message_), IsOk());
  EXPECT_EQ(third->mapped().segments, 1u);
  EXPECT_EQ(attached_->mapped().segments, 2u);
}

TEST_P(AttachedArenaTest, OffersThatDoNotBelongAreRefused) {
  const auto other = MakeArena(SegmentKind::kOwnerWritten);
  TENON_ASSERT_OK_AND_ASSIGN(Block block, other->TryAllocate(4096));
  TENON_ASSERT_OK_AND_ASSIGN(const auto offer, other->Offer(block));
  EXPECT_THAT(attached_->Add(offer.bytes, Travel(offer.fds)),
              StatusIs(kInvalidArgument, HasSubstr("another arena")));
  EXPECT_THAT(arena_->Offer(block), StatusIs(kInvalidArgument));
  EXPECT_THAT(arena_->Offer(Block()), StatusIs(kInvalidArgument));
  EXPECT_THAT(attached_->Add("", {}), StatusIs(kInvalidArgument));
  const size_t fds = CountOpenFds();
  std::vector<int> fds_and_one_more = offer_.fds;
  fds_and_one_more.push_back(offer_.fds[0]);
  EXPECT_THAT(attached_->Add(offer_.bytes, Travel(fds_and_one_more)),
              StatusIs(kInvalidArgument, HasSubstr("descriptors")));
  EXPECT_THAT(AttachedArena::Attach(offer_.bytes, {}),
              StatusIs(kInvalidArgument, HasSubstr("0 descriptors")));
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() == fds; }));
}

TEST_P(AttachedArenaTest, RetiredSegmentsGoWithASweep) {
  TENON_ASSERT_OK_AND_ASSIGN(Block other, arena_->TryAllocate(100'000));
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, other.Describe());
  TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena_->Offer(other));
  ASSERT_THAT(attached_->Add(offer.bytes, Travel(offer.fds)), IsOk());
  other.Reset();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_THAT(attached_->Claim(message), StatusIs(kDataLoss));
  attached_->Sweep();
  EXPECT_THAT(attached_->Claim(message), StatusIs(kNotFound));
  // The live one stays.
  EXPECT_THAT(attached_->Claim(message_), IsOk());
}

TEST_P(AttachedArenaTest, OnlySharedWritableBlocksCanBeWritten) {
  TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached_->Claim(message_));
  EXPECT_THAT(hold.mutable_data(), StatusIs(kFailedPrecondition));
  EXPECT_THAT(Hold().mutable_data(), StatusIs(kFailedPrecondition));
  const auto shared = MakeArena(SegmentKind::kSharedWritable);
  TENON_ASSERT_OK_AND_ASSIGN(Block block, shared->TryAllocate(4096));
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, block.Describe());
  TENON_ASSERT_OK_AND_ASSIGN(const auto offer, shared->Offer(block));
  TENON_ASSERT_OK_AND_ASSIGN(auto attached, AttachTo(offer));
  TENON_ASSERT_OK_AND_ASSIGN(const Hold writable, attached->Claim(message));
  TENON_ASSERT_OK_AND_ASSIGN(std::byte* const data, writable.mutable_data());
  data[5] = std::byte{9};
  EXPECT_EQ(block.data()[5], std::byte{9});
}

TEST_P(AttachedArenaTest, ForkedChildCanDoNothingWithIt) {
  TENON_ASSERT_OK_AND_ASSIGN(Hold hold, attached_->Claim(message_));
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(attached_->Claim(message_), StatusIs(kFailedPrecondition));
    EXPECT_THAT(attached_->Add(offer_.bytes, Travel(offer_.fds)),
                StatusIs(kFailedPrecondition));
    EXPECT_THAT(attached_->Offer(message_.segment),
                StatusIs(kFailedPrecondition));
    attached_->Sweep();
    hold.Reset();
    attached_.reset();
    // A separate attachment works.
    TENON_ASSERT_OK_AND_ASSIGN(auto own, AttachTo(offer_));
    EXPECT_THAT(own->Claim(message_), IsOk());
  }));
  block_.Reset();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(BlocksReleased(), 1u);
  EXPECT_EQ(arena_->Use().attached, 1u);
  EXPECT_EQ(hold.data()[0], std::byte{42});
}

INSTANTIATE_TEST_SUITE_P(Strategies, AttachedArenaTest,
                         testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                         [](const auto& strategy) {
                           return strategy.param == SharingStrategy::kFileSystem
                                      ? "FileSystem"
                                      : "FileDescriptor";
                         });

}  // namespace
}  // namespace tenon
