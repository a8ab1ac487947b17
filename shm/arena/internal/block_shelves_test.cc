// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/block_shelves.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/mapped_memory.h"
#include "tenon/shm/arena/internal/segment_table.h"
#include "tenon/shm/arena/internal/size_class.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;

constexpr size_t kShelvedBytes = 64;
constexpr size_t kShelf = SizeClassOf(kShelvedBytes);

// Shelves with the four blocks of one segment.
class BlockShelvesTest : public testing::Test {
 protected:
  static constexpr ArenaSegment kListing = {.id_and_state = ArenaSegment::kLive,
                                            .block_bytes = kShelvedBytes,
                                            .block_count = 4};

  void SetUp() override {
    ASSERT_THAT(table_.Add(kListing), IsOk());
    Add(segment_);
  }

  // All blocks of the segment are free.
  void Add(OwnedSegment& segment) {
    OwnedBlock* const first = shelves_.AddAndTake(segment);
    EXPECT_EQ(first, &segment.blocks[0]);
    EXPECT_EQ(first->references.load(), 1u);
    EXPECT_EQ(segment.free_blocks, segment.listed.block_count - 1);
    first->references.store(0);
    shelves_.PutFree(SizeClassOf(first->size()), {first});
  }
  // As Arena::Allocate().
  OwnedBlock* Take() {
    OwnedBlock* block = shelves_.TakeFree(kShelf);
    EXPECT_NE(block, nullptr);
    if (block != nullptr) {
      EXPECT_THAT(shelves_.MakeReady(*block), IsOk());
    }
    return block;
  }
  // As Block::Reset() of the last reference.
  void Release(OwnedBlock* block, bool described) {
    block->exposed.store(described);
    block->references.store(0);
    shelves_.Release(*block);
  }
  std::vector<OwnedBlock*> TakeReleased(size_t count) {
    std::vector<OwnedBlock*> batch;
    shelves_.TakeReleased(kShelf, count, batch);
    return batch;
  }
  BlockState::Kind StateOf(const OwnedBlock* block) const {
    return table_.StateOf(block->number).kind;
  }

  ArenaOptions options_;
  ArenaTable table_ =
      ArenaTable::Create({.arena = RandomId{1, 2}, .max_blocks = 8192}).value();
  MappedStore store_{
      {.segment = {.strategy = SharingStrategy::kFileDescriptor}}};
  OwnedSegment segment_{kListing, store_.Create(4096).value()};
  BlockShelves shelves_{options_, store_, table_};
};

TEST_F(BlockShelvesTest, ANewSegmentIsTakenFromItsFirstBlockOn) {
  for (size_t i = 0; i < 4; ++i) {
    const OwnedBlock* block = Take();
    EXPECT_EQ(block, &segment_.blocks[i]);
    EXPECT_EQ(block->references.load(), 1u);
    EXPECT_EQ(StateOf(block), BlockState::kInUse);
  }
  EXPECT_EQ(shelves_.TakeFree(kShelf), nullptr);
}

TEST_F(BlockShelvesTest, OtherSizesHaveShelvesOfTheirOwn) {
  EXPECT_EQ(shelves_.TakeFree(SizeClassOf(2 * kShelvedBytes)), nullptr);
}

TEST_F(BlockShelvesTest, ABlockThatWasNeverDescribedIsFreeAtOnce) {
  OwnedBlock* block = Take();
  Release(block, /*described=*/false);
  EXPECT_EQ(StateOf(block), BlockState::kFree);
  EXPECT_EQ(shelves_.CountReleased(kShelf), 0u);
  EXPECT_EQ(Take(), block);
}

// Runs `body` in a thread whose lane is not that of this thread.
template <typename Body>
void InAnotherLane(const Body& body) {
  const size_t lane = BlockShelves::ThisLane();
  bool done = false;
  while (!done) {
    std::thread([&] {
      if (BlockShelves::ThisLane() == lane) return;
      body();
      done = true;
    }).join();
  }
}

TEST_F(BlockShelvesTest, AFreeBlockIsInTheLaneOfTheThreadThatReleasedIt) {
  OwnedBlock* blocks[4];
  for (OwnedBlock*& block : blocks) block = Take();
  Release(blocks[2], /*described=*/false);
  EXPECT_EQ(StateOf(blocks[2]), BlockState::kFree);
  InAnotherLane([&] {
    EXPECT_EQ(shelves_.TakeFree(kShelf), nullptr);
    EXPECT_EQ(shelves_.TakeAnyFree(SizeClassOf(2 * kShelvedBytes)), nullptr);
    EXPECT_EQ(shelves_.TakeAnyFree(kShelf), blocks[2]);
    EXPECT_EQ(blocks[2]->references.load(), 1u);
    EXPECT_EQ(shelves_.TakeAnyFree(kShelf), nullptr);
  });
  Release(blocks[2], /*described=*/false);
  InAnotherLane([&] {
    EXPECT_EQ(shelves_.TakeFree(kShelf), nullptr);
    EXPECT_TRUE(shelves_.EmptyLanes());
    EXPECT_FALSE(shelves_.EmptyLanes());
    EXPECT_EQ(Take(), blocks[2]);
  });
  Release(blocks[1], /*described=*/false);
  Release(blocks[3], /*described=*/false);
  EXPECT_EQ(shelves_.TakeFree(SizeClassOf(2 * kShelvedBytes)), nullptr);
  EXPECT_EQ(Take(), blocks[3]);
  EXPECT_EQ(Take(), blocks[1]);
}

// Two of the three that are left stay on the shelf.
TEST_F(BlockShelvesTest, ALaneGetsNotMoreThanHalfOfAShelf) {
  EXPECT_EQ(Take(), &segment_.blocks[0]);
  InAnotherLane([&] {
    EXPECT_EQ(Take(), &segment_.blocks[2]);
    EXPECT_EQ(Take(), &segment_.blocks[3]);
    EXPECT_EQ(shelves_.TakeFree(kShelf), nullptr);
  });
  EXPECT_EQ(Take(), &segment_.blocks[1]);
}

// A thread that has used one size and now uses another one.
TEST_F(BlockShelvesTest, AFullLaneMakesRoomForBlocksOfAnotherSize) {
  constexpr size_t kCount = 32, kInLane = 16;
  constexpr size_t kOtherShelf = SizeClassOf(2 * kShelvedBytes);
  auto memory = store_.Create(4096);
  ASSERT_THAT(memory, IsOk());
  OwnedSegment other({.id_and_state = ArenaSegment::kLive,
                      .block_bytes = 2 * kShelvedBytes,
                      .block_count = kCount,
                      .first_block = 64},
                     *std::move(memory));
  Add(other);
  std::vector<OwnedBlock*> blocks;
  for (size_t i = 0; i < kCount; ++i) {
    blocks.push_back(shelves_.TakeFree(kOtherShelf));
    ASSERT_NE(blocks.back(), nullptr);
  }
  for (OwnedBlock* block : blocks) Release(block, /*described=*/false);
  EXPECT_EQ(other.free_blocks, kCount - kInLane);

  OwnedBlock* const block = Take();
  for (int i = 0; i < 10; ++i) {
    Release(block, /*described=*/false);
    EXPECT_EQ(segment_.free_blocks, 3u);
    ASSERT_EQ(Take(), block);
  }
  // The newest ones are left.
  EXPECT_EQ(other.free_blocks, kCount - kInLane / 2);
  EXPECT_EQ(shelves_.TakeFree(kOtherShelf), blocks.back());
  Release(block, /*described=*/false);
  Release(blocks.back(), /*described=*/false);
  EXPECT_TRUE(shelves_.RemoveIfIdle(other));
}

TEST_F(BlockShelvesTest, ASegmentIsIdleWithBlocksInLanes) {
  OwnedBlock* block = Take();
  InAnotherLane([&] { Release(block, /*described=*/false); });
  block = Take();
  EXPECT_FALSE(shelves_.RemoveIfIdle(segment_));
  Release(block, /*described=*/false);
  EXPECT_TRUE(shelves_.RemoveIfIdle(segment_));
  EXPECT_EQ(shelves_.TakeFree(kShelf), nullptr);
}

TEST_F(BlockShelvesTest, ADescribedBlockIsNotFreeBeforeItIsReclaimed) {
  OwnedBlock* block = Take();
  Release(block, /*described=*/true);
  EXPECT_EQ(StateOf(block), BlockState::kReleased);
  EXPECT_EQ(shelves_.CountReleased(kShelf), 1u);
  for (int i = 0; i < 3; ++i) EXPECT_NE(Take(), block);
  EXPECT_EQ(shelves_.TakeFree(kShelf), nullptr);

  const std::vector<OwnedBlock*> batch = TakeReleased(1);
  ASSERT_THAT(batch, ElementsAre(block));
  block->generation_bumped = true;
  shelves_.PutFree(kShelf, batch);
  EXPECT_EQ(StateOf(block), BlockState::kFree);
  EXPECT_FALSE(block->exposed.load());
  EXPECT_FALSE(block->generation_bumped);
  EXPECT_EQ(Take(), block);
}

TEST_F(BlockShelvesTest, BatchesAreOfTheOldestAndGoToTheEnd) {
  OwnedBlock* blocks[3];
  for (OwnedBlock*& block : blocks) block = Take();
  for (OwnedBlock* block : blocks) Release(block, /*described=*/true);
  const std::vector<OwnedBlock*> batch = TakeReleased(2);
  EXPECT_THAT(batch, ElementsAre(blocks[0], blocks[1]));
  shelves_.PutReleased(kShelf, batch);
  EXPECT_THAT(TakeReleased(9), ElementsAre(blocks[2], blocks[0], blocks[1]));
}

TEST_F(BlockShelvesTest, ASegmentIsIdleIfAllOfItsBlocksAreFree) {
  OwnedBlock* block = Take();
  EXPECT_FALSE(shelves_.RemoveIfIdle(segment_));
  Release(block, /*described=*/true);
  EXPECT_FALSE(shelves_.RemoveIfIdle(segment_));
  shelves_.PutFree(kShelf, TakeReleased(1));
  EXPECT_TRUE(shelves_.RemoveIfIdle(segment_));
  EXPECT_EQ(shelves_.TakeFree(kShelf), nullptr);
}

TEST_F(BlockShelvesTest, WipesBlocksThatWereUsed) {
  options_.wipe = true;
  OwnedBlock* block = Take();
  memset(block->data(), 7, kShelvedBytes);
  Release(block, /*described=*/false);
  ASSERT_EQ(Take(), block);
  EXPECT_EQ(block->data()[kShelvedBytes - 1], std::byte{0});
}

TEST_F(BlockShelvesTest, PoisonsBlocksThatBecomeFree) {
  options_.debug = ArenaDebug::kPoison;
  OwnedBlock* block = Take();
  Release(block, /*described=*/true);
  EXPECT_EQ(block->data()[0], std::byte{0});
  shelves_.PutFree(kShelf, TakeReleased(1));
  EXPECT_EQ(block->data()[0], std::byte{0xDF});
}

}  // namespace
}  // namespace tenon
