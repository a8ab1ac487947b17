// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/internal/pool_task_queue.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/pool/internal/pool_task.h"

namespace tenon::spawn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Linear work takes a second even under a sanitizer, quadratic work many
// minutes.
constexpr absl::Duration kWatchdog = absl::Seconds(60);
constexpr uint64_t kMany = 200'000;

PoolTaskQueue::Task MakeTask(uint64_t id,
                             Deadline deadline = Deadline::Never()) {
  auto task = std::make_shared<PoolTask>();
  task->id = id;
  task->deadline = deadline;
  return task;
}

std::vector<uint64_t> Ids(const std::vector<PoolTaskQueue::Task>& tasks) {
  std::vector<uint64_t> ids;
  for (const auto& task : tasks) ids.push_back(task->id);
  return ids;
}

TEST(PoolTaskQueueTest, FirstComesFirst) {
  PoolTaskQueue queue;
  EXPECT_TRUE(queue.empty());
  for (const uint64_t id : {3, 1, 2}) queue.PushBack(MakeTask(id));
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_EQ(queue.PopFront()->id, 3u);
  queue.PushFront(MakeTask(4));
  queue.PushFront(MakeTask(5));
  queue.PushBack(MakeTask(6));
  EXPECT_THAT(Ids(queue.TakeAll()), ElementsAre(5, 4, 1, 2, 6));
  EXPECT_TRUE(queue.empty());
}

TEST(PoolTaskQueueTest, AllOfOneIdAreTakenInTheirOrder) {
  PoolTaskQueue queue;
  std::vector<PoolTaskQueue::Task> chunks;
  for (int i = 0; i < 3; ++i) {
    chunks.push_back(MakeTask(7));
    queue.PushBack(chunks.back());
    queue.PushBack(MakeTask(8));
  }
  chunks.insert(chunks.begin(), MakeTask(7));
  queue.PushFront(chunks[0]);
  EXPECT_EQ(queue.TakeById(7), chunks);
  EXPECT_THAT(queue.TakeById(7), IsEmpty());
  EXPECT_THAT(queue.TakeById(9), IsEmpty());
  EXPECT_THAT(Ids(queue.TakeAll()), ElementsAre(8, 8, 8));
  EXPECT_THAT(queue.TakeById(8), IsEmpty());
}

TEST(PoolTaskQueueTest, ThoseThatExpireAreTakenAndOthersStay) {
  const Deadline later = Deadline::After(absl::Hours(1));
  PoolTaskQueue queue;
  queue.PushBack(MakeTask(1, later));
  queue.PushBack(MakeTask(2, Deadline::Passed()));
  queue.PushBack(MakeTask(3));
  queue.PushBack(MakeTask(4, Deadline::Passed()));
  EXPECT_TRUE(queue.next_deadline().has_passed());
  EXPECT_THAT(Ids(queue.TakeExpired()), ElementsAre(2, 4));
  EXPECT_FALSE(queue.next_deadline().has_passed());
  EXPECT_FALSE(queue.next_deadline().is_never());
  EXPECT_THAT(queue.TakeExpired(), IsEmpty());
  EXPECT_EQ(queue.PopFront()->id, 1u);
  EXPECT_TRUE(queue.next_deadline().is_never());
  EXPECT_THAT(Ids(queue.TakeAll()), ElementsAre(3));
}

TEST(PoolTaskQueueTest, WhatIsTakenOneWayIsGoneForTheOthers) {
  PoolTaskQueue queue;
  queue.PushBack(MakeTask(1, Deadline::Passed()));
  queue.PushBack(MakeTask(2, Deadline::Passed()));
  queue.PushBack(MakeTask(3, Deadline::Passed()));
  EXPECT_EQ(queue.PopFront()->id, 1u);
  EXPECT_THAT(Ids(queue.TakeById(3)), ElementsAre(3));
  EXPECT_THAT(queue.TakeById(1), IsEmpty());
  EXPECT_THAT(Ids(queue.TakeExpired()), ElementsAre(2));
  EXPECT_THAT(queue.TakeById(2), IsEmpty());
  EXPECT_TRUE(queue.empty());
}

TEST(PoolTaskQueueTest, ManyAreTakenByIdInRandomOrder) {
  PoolTaskQueue queue;
  std::vector<uint64_t> ids(kMany);
  std::iota(ids.begin(), ids.end(), 1);
  for (const uint64_t id : ids) queue.PushBack(MakeTask(id));
  std::shuffle(ids.begin(), ids.end(), std::mt19937(7));
  const Deadline watchdog = Deadline::After(kWatchdog);
  for (const uint64_t id : ids) {
    ASSERT_THAT(Ids(queue.TakeById(id)), ElementsAre(id));
    ASSERT_FALSE(watchdog.has_passed()) << queue.size() << " are left";
  }
  EXPECT_TRUE(queue.empty());
}

TEST(PoolTaskQueueTest, ManyExpireOneByOneBesideManyThatDoNot) {
  const Deadline later = Deadline::After(absl::Hours(1));
  PoolTaskQueue queue;
  for (uint64_t id = 1; id <= kMany; ++id) queue.PushBack(MakeTask(id, later));
  const Deadline watchdog = Deadline::After(kWatchdog);
  for (uint64_t i = 0; i < kMany; ++i) {
    queue.PushBack(MakeTask(0, Deadline::Passed()));
    ASSERT_THAT(Ids(queue.TakeExpired()), ElementsAre(0));
    ASSERT_FALSE(watchdog.has_passed()) << i << " have expired";
  }
  EXPECT_EQ(queue.size(), kMany);
}

}  // namespace
}  // namespace tenon::spawn
