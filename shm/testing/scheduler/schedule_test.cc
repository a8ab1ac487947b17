// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/schedule.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_var.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum std::memory_order;

// Two threads that add one to a word in two steps: an update may be lost.
void LoseAnUpdate(Schedule& s) {
  SharedWord<uint64_t> count{0};
  s.Name(count, "count");
  const auto add = [&] {
    const uint64_t before = SimAtomics::Load(count, acquire);
    SimAtomics::Store(count, before + 1, release);
  };
  s.AddThread("one", add);
  s.AddThread("two", add);
  s.Run();
  TENON_SIM_CHECK(SimAtomics::Load(count, relaxed) == 2);
}

TEST(ScheduleTest, EveryStrategyFindsALostUpdate) {
  for (const auto strategy :
       {ScheduleStrategyKind::kMixed, ScheduleStrategyKind::kUniform,
        ScheduleStrategyKind::kPriorities, ScheduleStrategyKind::kStarvation}) {
    const ExploreResult result = Explore(
        {.schedules = 1000, .schedule = {.strategy = strategy}}, &LoseAnUpdate);
    EXPECT_FALSE(result.ok) << ToString(strategy);
    EXPECT_THAT(result.failure, HasSubstr("does not hold in body"));
  }
}

TEST(ScheduleTest, WordsBeginAsTheirMemoryAndWrapAround) {
  const ExploreResult result = Explore({.schedules = 100}, [](Schedule& s) {
    SharedWord<uint32_t> narrow{5};
    SharedWord<uint64_t> wide{5};
    s.AddThread("t", [&] {
      TENON_SIM_CHECK(SimAtomics::FetchSub(narrow, 6, relaxed) == 5);
      TENON_SIM_CHECK(SimAtomics::FetchSub(wide, 6, relaxed) == 5);
      TENON_SIM_CHECK(SimAtomics::FetchAdd(narrow, 3, relaxed) == UINT32_MAX);
    });
    s.Run();
    TENON_SIM_CHECK(SimAtomics::Load(narrow, relaxed) == 2);
    TENON_SIM_CHECK(SimAtomics::Load(wide, relaxed) == UINT64_MAX);
  });
  EXPECT_TRUE(result.ok) << result.report;
}

// Several threads draw a ticket by CompareExchange: all tickets differ.
TEST(ScheduleTest, CompareExchangeIsAtomic) {
  bool failed_once = false;
  const ExploreResult result =
      Explore({.schedules = ScheduleCount(20'000)}, [&](Schedule& s) {
        SharedWord<uint64_t> next{0};
        uint64_t taken = 0;
        const auto take = [&] {
          uint64_t ticket = SimAtomics::Load(next, relaxed);
          while (
              !SimAtomics::CompareExchange(next, ticket, ticket + 1, relaxed)) {
            failed_once = true;
          }
          TENON_SIM_CHECK((taken >> ticket & 1) == 0);
          taken |= uint64_t{1} << ticket;
        };
        for (int t = 0; t < 3; ++t) s.AddThread("taker", take);
        s.Run();
        TENON_SIM_CHECK(taken == 7);
      });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(failed_once);
}

TEST(ScheduleTest, LivelockIsAFailure) {
  const ExploreResult result =
      Explore({.schedule = {.max_steps = 500}}, [](Schedule& s) {
        SharedWord<uint32_t> never{0};
        const auto wait = [&] {
          while (SimAtomics::Load(never, acquire) == 0) SimAtomics::Pause();
        };
        s.AddThread("one", wait);
        s.AddThread("two", wait);
        s.Run();
      });
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.schedules, 1u);
  EXPECT_EQ(result.failure, "livelock: not over after 500 steps");
}

// A store becomes visible in the end, whatever the strategy.
TEST(ScheduleTest, WaitingEndsOnceTheStoreIsThere) {
  const ExploreResult result = Explore(
      {.schedules = ScheduleCount(20'000), .schedule = {.max_steps = 1000}},
      [](Schedule& s) {
        SharedWord<uint32_t> ready{0};
        s.AddThread("waiter", [&] {
          while (SimAtomics::Load(ready, relaxed) == 0) SimAtomics::Pause();
        });
        s.AddThread("setter", [&] { SimAtomics::Store(ready, 1, relaxed); });
        s.Run();
      });
  EXPECT_TRUE(result.ok) << result.report;
}

TEST(ScheduleTest, ThreadsRunSevenAtATime) {
  std::set<uint64_t> first;
  const ExploreResult result = Explore({.schedules = 1000}, [&](Schedule& s) {
    SharedWord<uint64_t> next{0};
    std::array<uint64_t, 7> order = {};
    for (uint64_t& mine : order) {
      s.AddThread("t", [&] { mine = SimAtomics::FetchAdd(next, 1, relaxed); });
    }
    s.Run();
    first.insert(order[6]);
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_THAT(first, ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

// --- Kills. ---

constexpr ExploreOptions kOneKill = {.schedules = 2000,
                                     .schedule = {.max_kills = 1}};

TEST(ScheduleKillTest, MayComeBeforeEveryOperationAndNotAtAll) {
  std::set<int> stops;
  const ExploreResult result = Explore(kOneKill, [&](Schedule& s) {
    SharedWord<uint64_t> word{0};
    SimVar<int> data("data");
    int done = 0;
    const int victim = s.AddKillableThread("victim", [&] {
      data = 1;
      ++done;
      SimAtomics::Store(word, 1, relaxed);
      ++done;
      data = 2;
      ++done;
      SimAtomics::FetchAdd(word, 1, relaxed);
      ++done;
    });
    s.AddThread("other", [&] { SimAtomics::Load(word, relaxed); });
    s.Run();
    TENON_SIM_CHECK(s.was_killed(victim) == (done < 4));
    TENON_SIM_CHECK(s.anyone_was_killed() == s.was_killed(victim));
    stops.insert(done);
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_THAT(stops, ElementsAre(0, 1, 2, 3, 4));
}

TEST(ScheduleKillTest, OnlyTheKillableAreKilledAndNotMoreThanAsked) {
  int most = 0;
  const ExploreOptions options = {.schedules = 2000,
                                  .schedule = {.max_kills = 2}};
  const ExploreResult result = Explore(options, [&](Schedule& s) {
    SharedWord<uint64_t> word{0};
    const auto work = [&] { SimAtomics::FetchAdd(word, 1, relaxed); };
    const int safe = s.AddThread("safe", work);
    int killed = 0;
    std::array<int, 3> victims;
    for (int& v : victims) v = s.AddKillableThread("victim", work);
    s.Run();
    TENON_SIM_CHECK(!s.was_killed(safe));
    for (const int v : victims) killed += s.was_killed(v);
    most = std::max(most, killed);
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_EQ(most, 2);
}

// Like a process by SIGKILL: its stack is not unwound.
TEST(ScheduleKillTest, UnwindsNothing) {
  bool killed_within = false;
  const ExploreResult result = Explore(kOneKill, [&](Schedule& s) {
    struct Unlock {
      SharedWord<uint32_t>& word;
      ~Unlock() { SimAtomics::Store(word, 0, release); }
    };
    SharedWord<uint32_t> lock{0};
    bool within = false;
    const int victim = s.AddKillableThread("victim", [&] {
      SimAtomics::Store(lock, 1, relaxed);
      within = true;
      Unlock unlock{lock};
      SimAtomics::Load(lock, relaxed);
    });
    s.Run();
    if (!s.was_killed(victim)) return;
    TENON_SIM_CHECK(SimAtomics::Load(lock, relaxed) == (within ? 1 : 0));
    killed_within |= within;
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(killed_within);
}

// A thread that sees the end sees all stores before it, of plain data too.
TEST(ScheduleKillTest, TheEndIsSeenWithAllThatWasBefore) {
  bool saw_killed = false;
  const ExploreResult result = Explore(kOneKill, [&](Schedule& s) {
    SharedWord<uint64_t> word{0};
    SimVar<uint64_t> data("data");
    uint64_t stored = 0;
    const int victim = s.AddKillableThread("victim", [&] {
      for (uint64_t i = 1; i <= 3; ++i) {
        data = i;
        SimAtomics::Store(word, i, relaxed);
        stored = i;
      }
    });
    s.AddThread("observer", [&] {
      while (!s.HasEnded(victim)) SimAtomics::Pause();
      TENON_SIM_CHECK(SimAtomics::Load(word, relaxed) == stored);
      TENON_SIM_CHECK(data == stored || data == stored + 1);
      saw_killed |= s.was_killed(victim);
    });
    s.Run();
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(saw_killed);
}

// A thread that has not seen the end may still see values from before the dead
// thread's stores.
TEST(ScheduleKillTest, TheStoresOfTheDeadMayBeSeenLate) {
  const ExploreResult result = Explore(kOneKill, [](Schedule& s) {
    SharedWord<uint64_t> word{0};
    bool stored = false;
    const int victim = s.AddKillableThread("victim", [&] {
      SimAtomics::Store(word, 1, release);
      stored = true;
      SimAtomics::Load(word, relaxed);
    });
    s.AddThread("reader", [&] {
      const bool before = stored && s.was_killed(victim);
      const uint64_t seen = SimAtomics::Load(word, acquire);
      TENON_SIM_CHECK(!(before && seen == 0));
    });
    s.Run();
  });
  EXPECT_FALSE(result.ok);
}

// --- Wrong use. ---

TEST(ScheduleDeathTest, OperationsNeedASchedule) {
  SharedWord<uint64_t> word{0};
  EXPECT_DEATH(SimAtomics::Load(word, relaxed), "outside of Explore");
}

TEST(ScheduleDeathTest, OrdersMustFitTheOperation) {
  const auto explore = [](void (*operation)(SharedWord<uint64_t>&)) {
    (void)Explore({.schedules = 1}, [&](Schedule&) {
      SharedWord<uint64_t> word{0};
      operation(word);
    });
  };
  EXPECT_DEATH(explore([](SharedWord<uint64_t>& word) {
                 SimAtomics::Load(word, release);
               }),
               "a load cannot release");
  EXPECT_DEATH(explore([](SharedWord<uint64_t>& word) {
                 SimAtomics::Store(word, 1, acquire);
               }),
               "a store cannot acquire");
}

TEST(ScheduleDeathTest, AnEighthThreadIsTooMany) {
  EXPECT_DEATH((void)Explore({.schedules = 1},
                             [](Schedule& s) {
                               for (int t = 0; t < 8; ++t) {
                                 s.AddThread("t", [] {});
                               }
                             }),
               "too many logical threads");
}

}  // namespace
}  // namespace tenon
