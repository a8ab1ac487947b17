// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/sim_event.h"

#include <atomic>
#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_var.h"

namespace tenon {
namespace {

using enum std::memory_order;

TEST(SimEventTest, WakesAndOrders) {
  const ExploreResult result = Explore({.schedules = 5000}, [](Schedule& s) {
    SimEvent event("event");
    SimVar<int> data("data");
    s.AddThread("waiter", [&] {
      event.Wait();
      TENON_SIM_CHECK(data == 1);
    });
    s.AddThread("notifier", [&] {
      data = 1;
      event.Notify();
    });
    s.Run();
  });
  EXPECT_TRUE(result.ok) << result.report;
}

// As with an eventfd, notifications without a waiter merge into one.
TEST(SimEventTest, NotificationsAreNotCounted) {
  const ExploreResult result = Explore({.schedules = 5000}, [](Schedule& s) {
    SimEvent event("event");
    s.AddThread("waiter", [&] {
      event.Wait();
      event.Wait();
    });
    s.AddThread("notifier", [&] {
      event.Notify();
      event.Notify();
    });
    s.Run();
  });
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.failure, "deadlock: waiting for ever: waiter");
}

TEST(SimEventTest, OneNotificationWakesOneOfTwo) {
  const ExploreResult result = Explore({.schedules = 5000}, [](Schedule& s) {
    SimEvent event("event");
    int woken = 0;
    const auto wait = [&] {
      event.Wait();
      ++woken;
      TENON_SIM_CHECK(woken == 1);
    };
    s.AddThread("one", wait);
    s.AddThread("two", wait);
    s.AddThread("notifier", [&] { event.Notify(); });
    s.Run();
  });
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.failure,
              testing::AnyOf("deadlock: waiting for ever: one",
                             "deadlock: waiting for ever: two"));
}

TEST(SimEventTest, TheEndOfThePeerWakes) {
  bool saw_notification = false;
  bool saw_end = false;
  const ExploreResult result = Explore(
      {.schedules = 5000, .schedule = {.max_kills = 1}}, [&](Schedule& s) {
        SimEvent event("event");
        SharedWord<uint64_t> word{0};
        uint64_t stored = 0;
        const int peer = s.AddKillableThread("peer", [&] {
          SimAtomics::Store(word, 1, relaxed);
          stored = 1;
          event.Notify();
        });
        s.AddThread("waiter", [&] {
          const bool notified = event.WaitUnlessEnds(peer);
          TENON_SIM_CHECK(SimAtomics::Load(word, relaxed) == stored);
          TENON_SIM_CHECK(notified || s.was_killed(peer));
          (notified ? saw_notification : saw_end) = true;
        });
        s.Run();
      });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(saw_notification);
  EXPECT_TRUE(saw_end);
}

TEST(SimEventTest, AWaiterCanBeKilledAsleep) {
  bool died_asleep = false;
  const ExploreResult result = Explore(
      {.schedules = 5000, .schedule = {.max_kills = 1}}, [&](Schedule& s) {
        SimEvent event("event");
        bool waiting = false;
        const int waiter = s.AddKillableThread("waiter", [&] {
          waiting = true;
          event.Wait();
          waiting = false;
        });
        s.AddThread("notifier", [&] {
          while (!waiting && !s.HasEnded(waiter)) SimAtomics::Pause();
          event.Notify();
        });
        s.Run();
        died_asleep |= waiting && s.was_killed(waiter);
      });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(died_asleep);
}

// A notification is not a seq_cst fence: store buffering is possible around it.
TEST(SimEventTest, OrdersNothingElse) {
  const ExploreResult result = Explore({.schedules = 5000}, [](Schedule& s) {
    SharedWord<uint64_t> x{0};
    SharedWord<uint64_t> y{0};
    SimEvent one("one");
    SimEvent two("two");
    uint64_t got_y = 1;
    uint64_t got_x = 1;
    s.AddThread("one", [&] {
      SimAtomics::Store(x, 1, relaxed);
      one.Notify();
      got_y = SimAtomics::Load(y, relaxed);
    });
    s.AddThread("two", [&] {
      SimAtomics::Store(y, 1, relaxed);
      two.Notify();
      got_x = SimAtomics::Load(x, relaxed);
    });
    s.Run();
    TENON_SIM_CHECK(got_x == 1 || got_y == 1);
  });
  EXPECT_FALSE(result.ok);
}

}  // namespace
}  // namespace tenon
