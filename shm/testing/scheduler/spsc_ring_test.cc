// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/spsc_ring.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/spsc_ring_body.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(SpscRingTest, HandsOverInOrderInEverySchedule) {
  const ExploreResult result = Explore({.schedules = ScheduleCount(1'000'000)},
                                       [](Schedule& s) { RunSpscRing(s, {}); });
  EXPECT_TRUE(result.ok) << result.report;
}

// The same template on the processor's atomics.
TEST(SpscRingTest, HandsOverInOrderBetweenRealThreads) {
  constexpr uint64_t kItems = 100'000;
  SpscRing<StdAtomics, uint64_t, uint64_t, 8> ring;
  std::thread producer([&] {
    for (uint64_t i = 1; i <= kItems; ++i) {
      while (!ring.TryPut(i)) std::this_thread::yield();
    }
  });
  uint64_t wrong = 0;
  for (uint64_t i = 1; i <= kItems; ++i) {
    uint64_t value = 0;
    while (!ring.TryTake(value)) std::this_thread::yield();
    if (value != i) ++wrong;
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
}

struct WrongRing {
  const char* name;
  SpscRingOrders orders;
  const char* failure;
};

class WrongSpscRingTest : public testing::TestWithParam<WrongRing> {};

TEST_P(WrongSpscRingTest, IsCaughtWithASeedThatReplays) {
  const auto body = [](Schedule& s) { RunSpscRing(s, GetParam().orders); };
  const ExploreResult result = Explore({.schedules = 10'000}, body);
  ASSERT_FALSE(result.ok);
  EXPECT_THAT(result.failure, HasSubstr(GetParam().failure));
  RecordProperty("schedules", static_cast<int>(result.schedules));
  const ExploreResult again = Replay({}, result.seed, body);
  EXPECT_EQ(again.failure, result.failure);
  EXPECT_EQ(again.trace, result.trace);
}

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr char kReadRace[] = "data race: read of slot[";
constexpr char kWriteRace[] = "data race: write of slot[";

INSTANTIATE_TEST_SUITE_P(
    All, WrongSpscRingTest,
    testing::Values(
        WrongRing{"PublishRelaxed", {.publish = kRelaxed}, kReadRace},
        WrongRing{
            "SeePublishedRelaxed", {.see_published = kRelaxed}, kReadRace},
        WrongRing{"AcknowledgeRelaxed", {.acknowledge = kRelaxed}, kWriteRace},
        WrongRing{"SeeAcknowledgedRelaxed",
                  {.see_acknowledged = kRelaxed},
                  kWriteRace},
        WrongRing{"AcknowledgeBeforeReading",
                  {.acknowledge_before_reading = true},
                  "data race"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tenon
