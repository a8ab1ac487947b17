// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/sim_var.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using enum std::memory_order;

// The shared state of two threads in these tests.
struct Shared {
  SimVar<int> data{"data"};
  SharedWord<uint32_t> flag{0};
};

ExploreResult ExploreTwo(const std::function<void(Shared&)>& one,
                         const std::function<void(Shared&)>& two) {
  return Explore({.schedules = 1000}, [&](Schedule& s) {
    Shared shared;
    s.AddThread("one", [&] { one(shared); });
    s.AddThread("two", [&] { two(shared); });
    s.Run();
  });
}

void Write(Shared& shared) { shared.data = 1; }
void Read(Shared& shared) { static_cast<void>(static_cast<int>(shared.data)); }

TEST(SimVarTest, TwoWritesRace) {
  EXPECT_THAT(ExploreTwo(Write, Write).failure,
              AnyOf(Eq("data race: write of data by one is not ordered with an "
                       "access by two"),
                    Eq("data race: write of data by two is not ordered with an "
                       "access by one")));
}

TEST(SimVarTest, AReadAndAWriteRaceInEitherOrder) {
  EXPECT_THAT(ExploreTwo(Read, Write).failure,
              AnyOf(Eq("data race: read of data by one is not ordered with an "
                       "access by two"),
                    Eq("data race: write of data by two is not ordered with an "
                       "access by one")));
}

TEST(SimVarTest, TwoReadsDoNot) {
  const ExploreResult result = ExploreTwo(Read, Read);
  EXPECT_TRUE(result.ok) << result.report;
}

// One writes and sets the flag; the other reads once it has seen the flag.
ExploreResult ExploreFlag(std::memory_order store, std::memory_order load) {
  return ExploreTwo(
      [=](Shared& s) {
        s.data = 1;
        SimAtomics::Store(s.flag, 1, store);
      },
      [=](Shared& s) {
        if (SimAtomics::Load(s.flag, load) == 0) return;
        TENON_SIM_CHECK(s.data == 1);
      });
}

TEST(SimVarTest, ReleaseAndAcquireOrder) {
  EXPECT_TRUE(ExploreFlag(release, acquire).ok);
  EXPECT_TRUE(ExploreFlag(seq_cst, seq_cst).ok);
}

TEST(SimVarTest, AnythingWeakerDoesNot) {
  EXPECT_FALSE(ExploreFlag(relaxed, acquire).ok);
  EXPECT_FALSE(ExploreFlag(release, relaxed).ok);
}

TEST(SimVarTest, AnAccessAfterTheReleaseIsNotOrdered) {
  const ExploreResult result = ExploreTwo(
      [](Shared& s) {
        SimAtomics::Store(s.flag, 1, release);
        s.data = 1;
      },
      [](Shared& s) {
        if (SimAtomics::Load(s.flag, acquire) == 1) s.data = 2;
      });
  EXPECT_FALSE(result.ok);
}

TEST(SimVarTest, FencesOrder) {
  const ExploreResult result = ExploreTwo(
      [](Shared& s) {
        s.data = 1;
        SimAtomics::Fence(release);
        SimAtomics::Store(s.flag, 1, relaxed);
      },
      [](Shared& s) {
        if (SimAtomics::Load(s.flag, relaxed) == 0) return;
        SimAtomics::Fence(acquire);
        TENON_SIM_CHECK(s.data == 1);
      });
  EXPECT_TRUE(result.ok) << result.report;
}

// Fences agree on an order; without an atomic in between they synchronise
// nothing.
TEST(SimVarTest, SequentialFencesAloneDoNot) {
  const auto access = [](Shared& s) {
    SimAtomics::Fence(seq_cst);
    s.data = 1;
    SimAtomics::Fence(seq_cst);
  };
  EXPECT_FALSE(ExploreTwo(access, access).ok);
}

TEST(SimVarTest, StartAndEndOrder) {
  const ExploreResult result = Explore({.schedules = 100}, [](Schedule& s) {
    SimVar<std::string> text("text");
    text = "before";
    s.AddThread("t", [&] {
      TENON_SIM_CHECK(static_cast<std::string>(text) == "before");
      text = "within";
    });
    s.Run();
    TENON_SIM_CHECK(static_cast<std::string>(text) == "within");
  });
  EXPECT_TRUE(result.ok) << result.report;
}

}  // namespace
}  // namespace tenon
