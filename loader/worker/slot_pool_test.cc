// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/slot_pool.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

TEST(SlotPoolTest, HandsOutFreeSlotsBeforeNewOnes) {
  auto pool = std::make_shared<SlotPool>();
  EXPECT_EQ(pool->Take(), 0u);
  EXPECT_EQ(pool->Take(), 1u);
  EXPECT_FALSE(pool->IsMapped(1));
  pool->Return(0);
  EXPECT_EQ(pool->Take(), 0u);
  EXPECT_EQ(pool->Take(), 2u);
}

TEST(SlotPoolTest, ASlotComesBackWithTheLastCopyOfItsMemory) {
  auto pool = std::make_shared<SlotPool>();
  const uint32_t slot = pool->Take();
  TENON_ASSERT_OK_AND_ASSIGN(auto owned, Segment::CreateOwnerWritten(64));
  TENON_ASSERT_OK_AND_ASSIGN(auto mapping, owned.segment.MapReadOnly());
  const std::byte* data = mapping.data();
  pool->SetMapping(slot, std::move(mapping));
  EXPECT_TRUE(pool->IsMapped(slot));
  Batch::Memory memory = pool->MemoryOf(slot);
  EXPECT_EQ(memory.get(), data);
  Batch::Memory copy = memory;
  memory.reset();
  EXPECT_EQ(pool->Take(), 1u);  // Still in use.
  copy.reset();
  EXPECT_EQ(pool->Take(), slot);
}

TEST(SlotPoolTest, MemoryKeepsThePoolAndItsMapping) {
  auto pool = std::make_shared<SlotPool>();
  const uint32_t slot = pool->Take();
  TENON_ASSERT_OK_AND_ASSIGN(auto owned, Segment::CreateOwnerWritten(64));
  owned.mapping.data()[0] = std::byte{42};
  TENON_ASSERT_OK_AND_ASSIGN(auto mapping, owned.segment.MapReadOnly());
  pool->SetMapping(slot, std::move(mapping));
  const Batch::Memory memory = pool->MemoryOf(slot);
  pool.reset();
  EXPECT_EQ(*memory, std::byte{42});
}

}  // namespace
}  // namespace tenon::loader
