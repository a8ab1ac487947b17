// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/explore.h"

#include <stdlib.h>

#include <atomic>
#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using enum std::memory_order;

// Sets a variable of the environment while it lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), /*overwrite=*/1);
  }
  ~ScopedVariable() { unsetenv(name_); }

 private:
  const char* const name_;
};

// Fails if the second thread runs first and its store is visible at once.
void Body(Schedule& s) {
  SharedWord<uint64_t> word{0};
  s.Name(word, "word");
  s.AddThread("first",
              [&] { TENON_SIM_CHECK(SimAtomics::Load(word, relaxed) == 0); });
  s.AddThread("second", [&] { SimAtomics::Store(word, 1, relaxed); });
  s.Run();
}

TEST(ExploreTest, StopsAtTheFirstFailureWithItsSeedAndTrace) {
  const ExploreResult result = Explore({.first_seed = 100}, &Body);
  ASSERT_FALSE(result.ok);
  EXPECT_EQ(result.seed, 100 + result.schedules - 1);
  EXPECT_THAT(result.failure,
              AllOf(HasSubstr("explore_test.cc:"),
                    HasSubstr("SimAtomics::Load(word, relaxed) == 0 does not "
                              "hold in first")));
  EXPECT_EQ(result.trace,
            "    1 second       store       word         1 relaxed\n"
            "    2 second       ended\n"
            "    3 first        load        word         1 relaxed\n");
  EXPECT_THAT(
      result.report,
      AllOf(StartsWith(absl::StrCat("TENON_SCHEDULE_SEED=", result.seed, " (")),
            HasSubstr(result.failure), HasSubstr(result.trace)));
}

TEST(ExploreTest, RunsAllSeedsWhereNothingFails) {
  int calls = 0;
  const ExploreResult result = Explore({.schedules = 50}, [&](Schedule& s) {
    ++calls;
    SharedWord<uint64_t> word{0};
    s.AddThread("t", [&] { SimAtomics::Store(word, 1, relaxed); });
    s.Run();
  });
  EXPECT_TRUE(result.ok);
  EXPECT_EQ(result.schedules, 50u);
  EXPECT_EQ(result.steps, 50u);
  EXPECT_EQ(calls, 51);  // One to measure.
  EXPECT_EQ(result.report, "");
}

TEST(ExploreTest, ReplayIsIdentical) {
  std::set<std::string> traces;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const ExploreResult once = Replay({}, seed, &Body);
    const ExploreResult twice = Replay({}, seed, &Body);
    EXPECT_EQ(once.trace, twice.trace);
    EXPECT_EQ(once.ok, twice.ok);
    EXPECT_EQ(once.failure, twice.failure);
    traces.insert(once.trace);
  }
  EXPECT_GT(traces.size(), 2u);  // Another seed is another schedule.
}

TEST(ExploreTest, ReplayOfAFailureFailsAlike) {
  const ExploreResult result = Explore({}, &Body);
  const ExploreResult replay = Replay({}, result.seed, &Body);
  EXPECT_FALSE(replay.ok);
  EXPECT_EQ(replay.report, result.report);
}

TEST(ExploreTest, TheEnvironmentReplaysASeed) {
  const ExploreResult result = Explore({}, &Body);
  ASSERT_FALSE(result.ok);
  ScopedVariable seed("TENON_SCHEDULE_SEED", absl::StrCat(result.seed));
  testing::internal::CaptureStderr();
  const ExploreResult replay = Explore({}, &Body);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), result.report);
  EXPECT_EQ(replay.schedules, 1u);
  EXPECT_EQ(replay.failure, result.failure);
}

TEST(ExploreDeathTest, TheSeedMustBeANumber) {
  ScopedVariable seed("TENON_SCHEDULE_SEED", "12x");
  EXPECT_DEATH((void)Explore({}, &Body),
               "TENON_SCHEDULE_SEED=12x is not a number");
}

TEST(ExploreTest, SaysThatTheBodyIsNotTheSameEachTime) {
  uint64_t calls = 0;
  const ExploreResult result = Explore({}, [&](Schedule& s) {
    SharedWord<uint64_t> word{++calls};
    s.AddThread(
        "t", [&] { TENON_SIM_CHECK(SimAtomics::Load(word, relaxed) != 10); });
    s.Run();
  });
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.report,
              StartsWith("the body does not do the same when it is called "
                         "again; at first: "));
}

TEST(ExploreTest, ScheduleCountFollowsTheEnvironment) {
  const uint64_t one = ScheduleCount(1'000'000);
  ScopedVariable factor("TENON_SCHEDULE_FACTOR", "3");
  EXPECT_EQ(ScheduleCount(1'000'000), 3 * one);
}

}  // namespace
}  // namespace tenon
