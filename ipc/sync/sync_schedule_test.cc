// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The words of Event and Semaphore under the seeded scheduler: no wake-up is
// lost, also if a thread is killed, and each step and memory order is needed.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/internal/event_core.h"
#include "tenon/ipc/sync/internal/semaphore_core.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_var.h"

namespace tenon {
namespace {

// The futex of the running schedule. The kernel compares and enters the queue
// under a lock, after a full barrier. Without a killed thread a sleep has no
// time limit: a lost wake-up is a livelock. With one, the others check again,
// as after kFutexRecheck.
struct SimFutex {
  static void Wait(const SharedWord<uint32_t>& word, uint32_t expected,
                   Deadline) {
    Lock();
    const bool sleeps =
        SimAtomics::Load(word, std::memory_order_relaxed) == expected;
    const size_t me = count++;
    asleep[me] = sleeps;
    Unlock();
    while (asleep[me]) {
      if (Schedule::Current().anyone_was_killed()) asleep[me] = false;
      SimAtomics::Pause();
    }
  }
  static void Wake(const SharedWord<uint32_t>&, uint32_t most) {
    Lock();
    for (size_t i = 0; i < count && most > 0; ++i) {
      if (!asleep[i]) continue;
      asleep[i] = false;
      --most;
    }
    Unlock();
  }
  static int SpinRounds() { return spins; }

  static void Reset(int spin_rounds) {
    count = 0;
    spins = spin_rounds;
  }

  // The kernel's lock, which the dead never hold.
  static void Lock() {
    SimAtomics::Fence(std::memory_order_seq_cst);
    uint32_t free = 0;
    while (!SimAtomics::CompareExchange(lock, free, 1,
                                        std::memory_order_acquire)) {
      if (Schedule::Current().anyone_was_killed()) return;
      free = 0;
      SimAtomics::Pause();
    }
  }
  static void Unlock() {
    SimAtomics::Store(lock, 0, std::memory_order_release);
  }

  static inline SharedWord<uint32_t> lock{0};
  static inline std::array<bool, 4096> asleep;
  static inline size_t count = 0;
  static inline int spins = 0;
};

struct Exploration {
  uint64_t schedules = 0;
  int max_kills = 0;
};
using Explorer = ExploreResult (*)(const Exploration&);

ExploreOptions Options(const Exploration& e) {
  return {.schedules = e.schedules,
          .schedule = {.max_kills = e.max_kills, .max_steps = 3000}};
}

// One thread sets; two wait.
template <typename P>
ExploreResult ExploreEvent(const Exploration& e) {
  return Explore(Options(e), [&](Schedule& schedule) {
    using Core = EventCore<SimAtomics, SimFutex, P>;
    SimFutex::Reset(e.max_kills);
    EventWords words{SharedWord<uint32_t>(0), SharedWord<uint32_t>(0)};
    schedule.Name(words.state, "state");
    schedule.Name(words.sleepers, "sleepers");
    SimVar<uint64_t> data{"data"};
    const auto wait = [&] {
      Core::Wait(words, Deadline::Never());
      TENON_SIM_CHECK(data == 1);
    };
    schedule.AddThread("waiter 1", wait);
    schedule.AddKillableThread("waiter 2", wait);
    schedule.AddThread("setter", [&] {
      data = 1;
      Core::Set(words);
    });
    schedule.Run();
    TENON_SIM_CHECK(Core::IsSet(words));
  });
}

// Both begin to wait before it is set; then it is cleared before they check.
template <typename P>
ExploreResult ExploreSetAndClear(const Exploration& e) {
  return Explore(Options(e), [&](Schedule& schedule) {
    using Core = EventCore<SimAtomics, SimFutex, P>;
    SimFutex::Reset(0);
    EventWords words{SharedWord<uint32_t>(0), SharedWord<uint32_t>(0)};
    const auto wait = [&] { Core::Wait(words, Deadline::Never()); };
    schedule.AddThread("waiter 1", wait);
    schedule.AddThread("waiter 2", wait);
    schedule.AddThread("setter", [&] {
      // They count themselves after their check.
      while (SimAtomics::Load(words.sleepers, std::memory_order_acquire) != 2) {
        SimAtomics::Pause();
      }
      Core::Set(words);
      Core::Clear(words);
    });
    schedule.Run();
    TENON_SIM_CHECK(!Core::IsSet(words));
  });
}

// Two threads take a unit each, and one releases two.
template <typename P>
ExploreResult ExploreSemaphore(const Exploration& e) {
  return Explore(Options(e), [&](Schedule& schedule) {
    using Core = SemaphoreCore<SimAtomics, SimFutex, P>;
    SimFutex::Reset(e.max_kills);
    SemaphoreWords words{SharedWord<uint32_t>(0), SharedWord<uint32_t>(0)};
    schedule.Name(words.value, "value");
    schedule.Name(words.sleepers, "sleepers");
    SimVar<uint64_t> data{"data"};
    uint64_t taken = 0;  // Not part of the simulation.
    const auto take = [&] {
      Core::Acquire(words, Deadline::Never());
      TENON_SIM_CHECK(data == 1);
      ++taken;
    };
    schedule.AddThread("taker 1", take);
    schedule.AddKillableThread("taker 2", take);
    schedule.AddThread("giver", [&] {
      data = 1;
      Core::Release(words, 2, 1000);
    });
    schedule.Run();
    const uint64_t left =
        SimAtomics::Load(words.value, std::memory_order_relaxed);
    const bool none_doubled = taken + left <= 2;
    TENON_SIM_CHECK(none_doubled);
    if (!schedule.anyone_was_killed()) {
      const bool none_lost = taken + left == 2;
      TENON_SIM_CHECK(none_lost);
    }
  });
}

// A lock made of one unit.
template <typename P>
ExploreResult ExploreExclusion(const Exploration& e) {
  return Explore(Options(e), [&](Schedule& schedule) {
    using Core = SemaphoreCore<SimAtomics, SimFutex, P>;
    SimFutex::Reset(0);
    SemaphoreWords words{SharedWord<uint32_t>(1), SharedWord<uint32_t>(0)};
    SimVar<uint64_t> data{"data"};
    data = 0;
    const auto lock = [&] {
      Core::Acquire(words, Deadline::Never());
      data = data + 1;
      Core::Release(words, 1, 1);
    };
    schedule.AddThread("one", lock);
    schedule.AddThread("two", lock);
    schedule.AddThread("three", lock);
    schedule.Run();
    TENON_SIM_CHECK(data == 3);
    TENON_SIM_CHECK(SimAtomics::Load(words.value, std::memory_order_relaxed) ==
                    1);
  });
}

struct SoundCase {
  std::string name;
  Explorer explore;
  int max_kills = 0;
};
void PrintTo(const SoundCase& c, std::ostream* out) { *out << c.name; }

class SyncScheduleTest : public testing::TestWithParam<SoundCase> {};

TEST_P(SyncScheduleTest, LosesNoWakeUp) {
  const SoundCase& c = GetParam();
  const ExploreResult result = c.explore({ScheduleCount(400'000), c.max_kills});
  EXPECT_TRUE(result.ok) << result.report;
}

INSTANTIATE_TEST_SUITE_P(
    All, SyncScheduleTest,
    testing::Values(
        SoundCase{"Event", &ExploreEvent<EventProtocol>},
        SoundCase{"EventKill", &ExploreEvent<EventProtocol>, 1},
        SoundCase{"SetAndClear", &ExploreSetAndClear<EventProtocol>},
        SoundCase{"Semaphore", &ExploreSemaphore<SemaphoreProtocol>},
        SoundCase{"SemaphoreKill", &ExploreSemaphore<SemaphoreProtocol>, 1},
        SoundCase{"Exclusion", &ExploreExclusion<SemaphoreProtocol>}),
    [](const auto& test) { return test.param.name; });

struct EventCountsLate : EventProtocol {
  static constexpr auto kLoadSleepers = std::memory_order_relaxed;
};
struct EventSetRelaxed : EventProtocol {
  static constexpr auto kSet = std::memory_order_relaxed;
};
struct EventSeenRelaxed : EventProtocol {
  static constexpr auto kSeeSet = std::memory_order_relaxed;
};
struct EventWakesOne : EventProtocol {
  static constexpr bool kWakesAll = false;
};
struct EventDoesNotCount : EventProtocol {
  static constexpr bool kCountsSets = false;
};
struct SemaphoreLoadsRelaxed : SemaphoreProtocol {
  static constexpr auto kLoadSleepers = std::memory_order_relaxed;
};
struct SemaphoreReleaseRelaxed : SemaphoreProtocol {
  static constexpr auto kRelease = std::memory_order_relaxed;
};
struct SemaphoreAcquireRelaxed : SemaphoreProtocol {
  static constexpr auto kAcquire = std::memory_order_relaxed;
};
struct SemaphoreTakesByStore : SemaphoreProtocol {
  static constexpr auto kAcquire = std::memory_order_relaxed;
  static constexpr bool kTakeBySwap = false;
};
struct SemaphoreWakesOne : SemaphoreProtocol {
  static constexpr bool kWakesAsMany = false;
};

class WrongSyncScheduleTest : public testing::TestWithParam<SoundCase> {};

TEST_P(WrongSyncScheduleTest, IsCaught) {
  const ExploreResult result = GetParam().explore({2'000'000, 0});
  EXPECT_FALSE(result.ok);
  RecordProperty("schedules", static_cast<int>(result.schedules));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongSyncScheduleTest,
    testing::Values(
        SoundCase{"EventCountsLate", &ExploreEvent<EventCountsLate>},
        SoundCase{"EventSetRelaxed", &ExploreEvent<EventSetRelaxed>},
        SoundCase{"EventSeenRelaxed", &ExploreEvent<EventSeenRelaxed>},
        SoundCase{"EventWakesOne", &ExploreEvent<EventWakesOne>},
        SoundCase{"EventDoesNotCount", &ExploreSetAndClear<EventDoesNotCount>},
        SoundCase{"SemaphoreLoadsRelaxed",
                  &ExploreSemaphore<SemaphoreLoadsRelaxed>},
        SoundCase{"SemaphoreReleaseRelaxed",
                  &ExploreExclusion<SemaphoreReleaseRelaxed>},
        SoundCase{"SemaphoreAcquireRelaxed",
                  &ExploreExclusion<SemaphoreAcquireRelaxed>},
        SoundCase{"SemaphoreTakesByStore",
                  &ExploreExclusion<SemaphoreTakesByStore>},
        SoundCase{"SemaphoreWakesOne", &ExploreSemaphore<SemaphoreWakesOne>}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon
