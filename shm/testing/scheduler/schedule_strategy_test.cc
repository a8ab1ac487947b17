// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/schedule_strategy.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/scheduler/schedule_random.h"

namespace tenon {
namespace {

constexpr uint32_t kThreads123 = 0b1110;
constexpr uint32_t kSteps = 100;

std::vector<int> Picks(ScheduleStrategyKind kind, int change_points,
                       uint64_t seed) {
  ScheduleRandom random(seed);
  ScheduleStrategy strategy;
  strategy.Begin({kind, change_points, kSteps}, &random);
  std::vector<int> picks;
  int current = 1;
  for (uint32_t i = 0; i < kSteps; ++i) {
    current = strategy.Pick(kThreads123, current);
    picks.push_back(current);
  }
  return picks;
}

int CountSwitches(const std::vector<int>& picks) {
  int switches = 0;
  for (size_t i = 1; i < picks.size(); ++i) {
    switches += picks[i] != picks[i - 1];
  }
  return switches;
}

// Values that Vigna's splitmix64.c gives for the seed 0: printed seeds keep
// their meaning.
TEST(ScheduleRandomTest, IsTheSameForEver) {
  ScheduleRandom random(0);
  EXPECT_EQ(random.Next(), 0xe220a8397b1dcdafu);
  EXPECT_EQ(random.Next(), 0x6e789e6aa1b965f4u);
  EXPECT_EQ(random.Next(), 0x06c45d188009454fu);
}

TEST(ScheduleStrategyTest, UniformPicksAllAlike) {
  std::array<int, 4> count = {};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    for (const int t : Picks(ScheduleStrategyKind::kUniform, 0, seed)) {
      ++count[t];
    }
  }
  EXPECT_EQ(count[0], 0);
  for (int t = 1; t < 4; ++t) EXPECT_NEAR(count[t], 10'000, 500) << t;
}

TEST(ScheduleStrategyTest, PrioritiesSwitchAtChangePointsOnly) {
  std::set<int> first;
  int most_switches = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto picks = Picks(ScheduleStrategyKind::kPriorities, 3, seed);
    first.insert(picks.front());
    EXPECT_LE(CountSwitches(picks), 3) << seed;
    most_switches = std::max(most_switches, CountSwitches(picks));
  }
  EXPECT_THAT(first, testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(most_switches, 3);
}

TEST(ScheduleStrategyTest, PrioritiesGiveWayToASpinnerThatDoesNotSaySo) {
  ScheduleRandom random(1);
  ScheduleStrategy strategy;
  strategy.Begin({ScheduleStrategyKind::kPriorities, 0, kSteps}, &random);
  std::set<int> picked;
  int current = 1;
  for (int i = 0; i < 10'000; ++i) {
    picked.insert(current = strategy.Pick(kThreads123, current));
  }
  EXPECT_THAT(picked, testing::ElementsAre(1, 2, 3));
}

TEST(ScheduleStrategyTest, StarvationLeavesOneOutForLong) {
  int starved = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto picks = Picks(ScheduleStrategyKind::kStarvation, 0, seed);
    for (int t = 1; t < 4; ++t) {
      starved += std::count(picks.begin(), picks.begin() + 40, t) == 0;
    }
  }
  // Uniformly, one in ten million is not run for 40 steps.
  EXPECT_GT(starved, 20);
}

TEST(ScheduleStrategyTest, WhoWaitsRunsAgainAfterAChange) {
  for (const auto kind :
       {ScheduleStrategyKind::kUniform, ScheduleStrategyKind::kPriorities,
        ScheduleStrategyKind::kStarvation}) {
    int again = 0;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      ScheduleRandom random(seed);
      ScheduleStrategy strategy;
      strategy.Begin({kind, 0, kSteps}, &random);
      strategy.Waits(1);
      EXPECT_NE(strategy.Pick(kThreads123, 1), 1);
      strategy.Waits(2);
      strategy.Waits(3);
      strategy.Changed();
      again += strategy.Pick(kThreads123, 3) == 1;
    }
    EXPECT_GT(again, 0) << ToString(kind);
  }
}

TEST(ScheduleStrategyTest, RunsSomebodyWhenAllWait) {
  for (const auto kind :
       {ScheduleStrategyKind::kUniform, ScheduleStrategyKind::kPriorities,
        ScheduleStrategyKind::kStarvation}) {
    ScheduleRandom random(1);
    ScheduleStrategy strategy;
    strategy.Begin({kind, 0, kSteps}, &random);
    std::set<int> picked;
    int current = 1;
    for (int i = 0; i < 1000; ++i) {
      strategy.Waits(current);
      picked.insert(current = strategy.Pick(kThreads123, current));
    }
    EXPECT_THAT(picked, testing::ElementsAre(1, 2, 3)) << ToString(kind);
  }
}

TEST(ScheduleStrategyTest, MixedIsEachOfThem) {
  std::set<ScheduleStrategyKind> kinds;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    ScheduleRandom random(seed);
    ScheduleStrategy strategy;
    strategy.Begin({}, &random);
    kinds.insert(strategy.kind());
  }
  EXPECT_THAT(kinds, testing::ElementsAre(ScheduleStrategyKind::kUniform,
                                          ScheduleStrategyKind::kPriorities,
                                          ScheduleStrategyKind::kStarvation));
}

}  // namespace
}  // namespace tenon
