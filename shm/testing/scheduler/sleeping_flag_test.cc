// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A sleeper must be woken: {store head; load sleeping} on one side against
// {store sleeping; load head} on the other. Each side must see the other's
// store or be seen, which only sequential consistency of all four gives. A lost
// wake-up is a deadlock.

#include <atomic>
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_event.h"

namespace tenon {
namespace {

using ::testing::StartsWith;

struct Orders {
  std::memory_order store_head = std::memory_order_seq_cst;
  std::memory_order load_sleeping = std::memory_order_seq_cst;
  std::memory_order store_sleeping = std::memory_order_seq_cst;
  std::memory_order load_head = std::memory_order_seq_cst;
  // Between the store and the load on both sides; relaxed is none.
  std::memory_order fence = std::memory_order_relaxed;
  // A thread about to sleep fences all threads.
  enum { kNever, kBeforeStore, kAfterStore } fence_all = kNever;
};

template <AtomicsPolicy A>
struct Bell {
  const Orders orders;
  SharedWord<uint64_t> head{0};
  SharedWord<uint32_t> sleeping{0};

  // Returns whether the sleeper must be woken.
  bool Publish(uint64_t value) {
    A::Store(head, value, orders.store_head);
    Fence();
    return A::Load(sleeping, orders.load_sleeping) != 0;
  }

  // Returns whether there is a value newer than `seen`; otherwise announces
  // that the caller is about to sleep.
  bool ReadyOrSleeping(uint64_t seen) {
    if (A::Load(head, std::memory_order_acquire) != seen) return true;
    if (orders.fence_all == Orders::kBeforeStore) A::FenceAll();
    A::Store(sleeping, 1, orders.store_sleeping);
    Fence();
    if (orders.fence_all == Orders::kAfterStore) A::FenceAll();
    if (A::Load(head, orders.load_head) == seen) return false;
    Awake();
    return true;
  }

  void Awake() { A::Store(sleeping, 0, std::memory_order_relaxed); }

  void Fence() {
    if (orders.fence != std::memory_order_relaxed) A::Fence(orders.fence);
  }
};

ExploreResult ExploreBell(const Orders& orders, uint64_t schedules) {
  return Explore({.schedules = schedules}, [&](Schedule& s) {
    constexpr uint64_t kItems = 2;
    Bell<SimAtomics> bell{orders};
    SimEvent event("bell");
    s.Name(bell.head, "head");
    s.Name(bell.sleeping, "sleeping");
    s.AddThread("producer", [&] {
      for (uint64_t i = 1; i <= kItems; ++i) {
        if (bell.Publish(i)) event.Notify();
      }
    });
    s.AddThread("sleeper", [&] {
      for (uint64_t seen = 0; seen < kItems;) {
        while (!bell.ReadyOrSleeping(seen)) {
          event.Wait();
          bell.Awake();
        }
        seen = SimAtomics::Load(bell.head, std::memory_order_acquire);
      }
    });
    s.Run();
  });
}

TEST(SleepingFlagTest, IsSoundSequentiallyConsistent) {
  const ExploreResult result = ExploreBell({}, ScheduleCount(1'000'000));
  EXPECT_TRUE(result.ok) << result.report;
}

TEST(SleepingFlagTest, IsSoundWithFences) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const ExploreResult result = ExploreBell(
      {kRelaxed, kRelaxed, kRelaxed, kRelaxed, std::memory_order_seq_cst},
      ScheduleCount(200'000));
  EXPECT_TRUE(result.ok) << result.report;
}

TEST(SleepingFlagTest, IsSoundIfWhoSleepsFencesAll) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const ExploreResult result =
      ExploreBell({.store_head = std::memory_order_release,
                   .load_sleeping = kRelaxed,
                   .store_sleeping = kRelaxed,
                   .load_head = kRelaxed,
                   .fence_all = Orders::kAfterStore},
                  ScheduleCount(1'000'000));
  EXPECT_TRUE(result.ok) << result.report;
}

struct WrongBell {
  const char* name;
  Orders orders;
};

class WrongSleepingFlagTest : public testing::TestWithParam<WrongBell> {};

TEST_P(WrongSleepingFlagTest, LosesAWakeUp) {
  const ExploreResult result = ExploreBell(GetParam().orders, 10'000);
  ASSERT_FALSE(result.ok);
  EXPECT_THAT(result.failure,
              StartsWith("deadlock: waiting for ever: sleeper"));
  RecordProperty("schedules", static_cast<int>(result.schedules));
}

constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

INSTANTIATE_TEST_SUITE_P(
    All, WrongSleepingFlagTest,
    testing::Values(
        WrongBell{"AllAcquireRelease",
                  {kRelease, kAcquire, kRelease, kAcquire}},
        WrongBell{"StoreHeadRelease", {.store_head = kRelease}},
        WrongBell{"LoadSleepingAcquire", {.load_sleeping = kAcquire}},
        WrongBell{"StoreSleepingRelease", {.store_sleeping = kRelease}},
        WrongBell{"LoadHeadAcquire", {.load_head = kAcquire}},
        WrongBell{"FenceOfAllTooEarly",
                  {.store_head = kRelease,
                   .load_sleeping = kAcquire,
                   .fence_all = Orders::kBeforeStore}},
        WrongBell{"WeakFences",
                  {kRelease, kAcquire, kRelease, kAcquire,
                   std::memory_order_acq_rel}}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tenon
