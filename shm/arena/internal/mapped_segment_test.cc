// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/mapped_segment.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/internal/mapped_memory.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

bool Close(MappedSegment& slot, bool is_claimed = false) {
  return slot.Close([is_claimed] { return is_claimed; });
}

// Its first byte identifies it.
void Open(MappedSegment& slot, uint32_t id) {
  auto made = Segment::CreateOwnerWritten(
                  4096, {.strategy = SharingStrategy::kFileDescriptor})
                  .value();
  made.mapping.data()[0] = std::byte(id);
  auto memory = std::make_unique<MappedMemory>(std::move(made.segment));
  ASSERT_THAT(memory->Map(), IsOk());
  slot.Open({.id_and_state = uint64_t{id} << 32 | ArenaSegment::kLive,
             .block_bytes = 4096,
             .block_count = 1,
             .first_block = 0},
            std::move(memory));
}

TEST(MappedSegmentTest, NothingIsOpenAtFirstAlsoNotTheSegmentZero) {
  MappedSegment slot;
  EXPECT_FALSE(slot.is_open());
  EXPECT_FALSE(slot.IsOpen(0));
  EXPECT_FALSE(slot.Enter(0));
  EXPECT_FALSE(Close(slot));
}

TEST(MappedSegmentTest, OnlyTheSegmentThatIsOpenCanBeEntered) {
  MappedSegment slot;
  Open(slot, 7);
  EXPECT_TRUE(slot.IsOpen(7));
  EXPECT_EQ(slot.id(), 7u);
  EXPECT_FALSE(slot.IsOpen(8));
  EXPECT_FALSE(slot.Enter(8));
  ASSERT_TRUE(slot.Enter(7));
  EXPECT_EQ(slot.data()[0], std::byte{7});
  EXPECT_EQ(slot.listed().block_bytes, 4096u);
  slot.Leave();
}

TEST(MappedSegmentTest, IsNotClosedWhileSomebodyIsInIt) {
  const size_t fds = CountOpenFds();
  MappedSegment slot;
  Open(slot, 7);
  ASSERT_TRUE(slot.Enter(7));
  ASSERT_TRUE(slot.Enter(7));
  EXPECT_FALSE(Close(slot));
  slot.Leave();
  EXPECT_FALSE(Close(slot));
  slot.Leave();
  EXPECT_TRUE(Close(slot));
  EXPECT_FALSE(slot.Enter(7));
  EXPECT_FALSE(slot.is_open());
  EXPECT_FALSE(Close(slot));
  EXPECT_EQ(CountOpenFds(), fds);
  Open(slot, 9);
  EXPECT_FALSE(slot.Enter(7));
  EXPECT_TRUE(slot.Enter(9));
  slot.Leave();
}

TEST(MappedSegmentTest, IsNotClosedWhileABlockIsClaimed) {
  MappedSegment slot;
  Open(slot, 7);
  const uint64_t opened = slot.opened();
  EXPECT_FALSE(Close(slot, /*is_claimed=*/true));
  EXPECT_TRUE(slot.IsOpen(7));
  EXPECT_EQ(slot.opened(), opened);
  EXPECT_EQ(slot.data()[0], std::byte{7});
  EXPECT_TRUE(Close(slot));
  Open(slot, 7);
  EXPECT_NE(slot.opened(), opened);
}

TEST(MappedSegmentTest, WhoIsInItSeesTheSegmentThatItEntered) {
  MappedSegment slot;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> entered{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        for (uint32_t id = 1; id < 4; ++id) {
          if (!slot.Enter(id)) continue;
          EXPECT_EQ(slot.data()[0], std::byte(id));
          EXPECT_EQ(slot.listed().id(), id);
          slot.Leave();
          entered.fetch_add(1);
        }
      }
    });
  }
  for (uint32_t i = 0; i < 300; ++i) {
    Open(slot, 1 + i % 3);
    // Now and then a thread has entered it.
    const uint64_t before = entered;
    while (i % 10 == 0 && entered == before) std::this_thread::yield();
    while (!Close(slot)) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GE(entered.load(), 30u);
}

}  // namespace
}  // namespace tenon
