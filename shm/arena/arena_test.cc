// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/arena.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Copies the descriptors of an offer, in place of a channel.
std::vector<UniqueFd> Travel(const std::vector<int>& fds) {
  std::vector<UniqueFd> arrived;
  for (const int fd : fds) {
    arrived.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  return arrived;
}

absl::StatusOr<std::shared_ptr<AttachedArena>> Attach(const ArenaOffer& offer) {
  return AttachedArena::Attach(offer.bytes, Travel(offer.fds));
}

class ArenaTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  ArenaOptions Options() {
    ArenaOptions options;
    options.segment.strategy = GetParam();
    return options;
  }
};

TEST_P(ArenaTest, GivesAlignedBlocksOfTheirOwn) {
  TENON_ASSERT_OK_AND_ASSIGN(auto arena, CreateArena(Options()));
  std::vector<Block> blocks;
  for (const size_t bytes : {1, 64, 65, 1000, 4096, 5000, 100'000, 5'000'000}) {
    TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(bytes));
    ASSERT_GE(block.size(), bytes);
    const auto address = reinterpret_cast<uintptr_t>(block.data());
    EXPECT_EQ(address % (bytes >= 4096 ? 4096 : 64), 0u) << bytes;
    std::memset(block.data(), static_cast<int>(blocks.size()), block.size());
    blocks.push_back(std::move(block));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].data()[0], std::byte(i));
    EXPECT_EQ(blocks[i].data()[blocks[i].size() - 1], std::byte(i));
  }
}

TEST_P(ArenaTest, BlockThatIsClaimedIsNotReusedBeforeItIsReleased) {
  ArenaOptions options = Options();
  options.quota_bytes = 4096;
  TENON_ASSERT_OK_AND_ASSIGN(auto arena, CreateArena(options));
  TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(4096));
  block.data()[100] = std::byte{42};
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, arena->Offer(block));
  TENON_ASSERT_OK_AND_ASSIGN(auto attached, Attach(offer));
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor message,
                             block.Describe(100, 10));
  TENON_ASSERT_OK_AND_ASSIGN(Hold hold, attached->Claim(message));
  block.Reset();
  EXPECT_EQ(hold.size(), 10u);
  EXPECT_EQ(hold.data()[0], std::byte{42});

  EXPECT_THAT(arena->TryAllocate(4096),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("quota"), HasSubstr("arena_test"),
                             HasSubstr("1 blocks, 4096 bytes"))));
  EXPECT_EQ(arena->Use().waits.count(), 0u);  // A single try waits for nothing.
  EXPECT_THAT(
      arena->Allocate(4096, Deadline::After(absl::Milliseconds(300))),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("quota")));
  EXPECT_EQ(arena->Use().waits.count(), 1u);
  EXPECT_GE(arena->Use().waits.total_ns, 1'000'000u);
  EXPECT_EQ(hold.data()[0], std::byte{42});

  hold.Reset();
  TENON_ASSERT_OK_AND_ASSIGN(const Block again, arena->TryAllocate(4096));
  EXPECT_THAT(attached->Claim(message), StatusIs(absl::StatusCode::kDataLoss,
                                                 HasSubstr("was reclaimed")));
}

TEST_P(ArenaTest, CopiesInManyThreadsLetGoOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(auto arena, CreateArena(Options()));
  for (int turn = 0; turn < 200; ++turn) {
    TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(4096));
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([mine = block, i] {
        Block copy = mine;
        copy.data()[i] = std::byte{1};
      });
    }
    block.Reset();
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(arena->Use().blocks_in_use, 0u);
  }
  // None of them is in the free list twice.
  std::vector<Block> blocks;
  std::set<std::byte*> places;
  for (int i = 0; i < 300; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(4096));
    EXPECT_TRUE(places.insert(block.data()).second);
    blocks.push_back(std::move(block));
  }
}

TEST_P(ArenaTest, AgeOfWhatIsHeldCountsFromAllocation) {
  TENON_ASSERT_OK_AND_ASSIGN(auto arena, CreateArena(Options()));
  TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(4096));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, arena->Offer(block));
  TENON_ASSERT_OK_AND_ASSIGN(auto attached, Attach(offer));
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor message, block.Describe());
  TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached->Claim(message));
  absl::SleepFor(absl::Milliseconds(60));
  block.Reset();
  TENON_ASSERT_OK_AND_ASSIGN(const auto holders, arena->Holders());
  ASSERT_EQ(holders.size(), 1u);
  // Both timestamps have the resolution of the kernel's tick, of up to 10 ms.
  EXPECT_GE(holders[0].oldest, absl::Milliseconds(40));
}

TEST_P(ArenaTest, ManySmallBlocksNeedFewSegments) {
  TENON_ASSERT_OK_AND_ASSIGN(auto arena, CreateArena(Options()));
  std::vector<Block> blocks;
  for (int i = 0; i < 100'000; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(1024));
    blocks.push_back(std::move(block));
  }
  EXPECT_LE(arena->Use().segments, 12u);
  EXPECT_EQ(arena->Use().blocks_in_use, 100'000u);
  blocks.clear();
  TENON_ASSERT_OK_AND_ASSIGN(const size_t given_back, arena->Trim());
  EXPECT_GE(given_back, 100'000u * 1024);
  EXPECT_EQ(arena->Use().segments, 0u);
}

TEST_P(ArenaTest, IdleSegmentsMakeRoomForOtherSizes) {
  ArenaOptions options = Options();
  options.quota_bytes = 1 << 20;
  TENON_ASSERT_OK_AND_ASSIGN(auto arena, CreateArena(options));
  for (const size_t bytes : {1 << 20, 1000, 500'000, 1 << 20}) {
    EXPECT_THAT(arena->TryAllocate(bytes), IsOk()) << bytes;
  }
}

TEST_P(ArenaTest, RetiredSegmentsAreUnmappedByThoseAttached) {
  TENON_ASSERT_OK_AND_ASSIGN(auto arena, CreateArena(Options()));
  TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(4096));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, arena->Offer(block));
  TENON_ASSERT_OK_AND_ASSIGN(auto attached, Attach(offer));
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor message, block.Describe());
  block.Reset();
  EXPECT_THAT(arena->Trim(), IsOk());
  attached->Sweep();
  EXPECT_THAT(attached->Claim(message), StatusIs(absl::StatusCode::kNotFound));
}

INSTANTIATE_TEST_SUITE_P(Strategies, ArenaTest,
                         testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                         [](const auto& strategy) {
                           return strategy.param == SharingStrategy::kFileSystem
                                      ? "FileSystem"
                                      : "FileDescriptor";
                         });

}  // namespace
}  // namespace tenon
