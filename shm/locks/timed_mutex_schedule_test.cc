// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The lock of TimedMutex under the seeded scheduler: it excludes, orders the
// data of its holders and loses no wake-up, whichever thread owns the bias and
// whichever deadline passes; and each of its steps and memory orders is needed.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/locks/biased_lock.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_var.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kNever = -1;

// Passes after so many checks.
struct SimDeadline {
  int* checks;
  bool is_never() const { return *checks == kNever; }
  bool has_passed() const {
    if (is_never()) return false;
    if (*checks == 0) return true;
    --*checks;
    return false;
  }
};

// The futex of the running schedule, and its fence. The kernel compares and
// enters the queue under a lock, after a full barrier, and leaves it under that
// lock. A sleep without deadline has no time limit: a lost wake-up is a
// livelock. One with a deadline ends at any moment.
struct SimSystem {
  static void Wait(const SharedWord<uint32_t>& word, uint32_t expected,
                   SimDeadline deadline) {
    Lock();
    const bool sleeps =
        SimAtomics::Load(word, std::memory_order_relaxed) == expected;
    const size_t me = count++;
    asleep[me] = sleeps ? &word : nullptr;
    Unlock();
    while (asleep[me] != nullptr) {
      SimAtomics::Pause();
      if (!deadline.is_never()) break;
    }
    Lock();
    asleep[me] = nullptr;
    Unlock();
  }
  static void Wake(const SharedWord<uint32_t>& word, uint32_t most) {
    Lock();
    for (size_t i = 0; i < count && most > 0; ++i) {
      if (asleep[i] != &word) continue;
      asleep[i] = nullptr;
      --most;
    }
    Unlock();
  }
  static bool CanFence() { return can_fence; }
  static void FenceAll() {
    ++fences;
    SimAtomics::FenceAll();
  }

  static void Reset(bool with_fences) {
    count = 0;
    fences = 0;
    can_fence = with_fences;
  }

  // The kernel's.
  static void Lock() {
    SimAtomics::Fence(std::memory_order_seq_cst);
    uint32_t free = 0;
    while (!SimAtomics::CompareExchange(lock, free, 1,
                                        std::memory_order_acquire)) {
      free = 0;
      SimAtomics::Pause();
    }
  }
  static void Unlock() {
    SimAtomics::Store(lock, 0, std::memory_order_release);
  }

  static inline SharedWord<uint32_t> lock{0};
  static inline std::array<const void*, 4096> asleep;
  static inline size_t count = 0;
  static inline int fences = 0;
  static inline bool can_fence = true;
};

// A thread that locks, changes the data and unlocks.
struct User {
  uint64_t name;  // As of BiasedLock.
  int times = 1;
  int checks = kNever;  // Of each deadline.
  // Tries to lock it once more while it holds it.
  bool again = false;
  // Begins after this one has ended; the first thread is 1.
  int after = 0;
  bool keeps_bias = false;
};

struct Scenario {
  std::vector<User> users;
  bool can_fence = true;
  // No thread revokes the bias of the first, which locks kOwners times.
  bool is_kept = false;
};
constexpr uint64_t kOwners = 3;

template <typename P>
class Simulation {
 public:
  Simulation(Schedule& schedule, const Scenario& scenario)
      : schedule_(schedule), scenario_(scenario) {}

  void Run() {
    static constexpr const char* kNames[] = {"one", "two", "three", "four"};
    SimSystem::Reset(scenario_.can_fence);
    data_ = 0;
    size_t n = 0;
    for (const User& user : scenario_.users) {
      schedule_.AddThread(kNames[n++], [this, &user] { Use(user); });
    }
    schedule_.Run();
    const bool none_was_lost = data_ == had_;
    TENON_SIM_CHECK(none_was_lost);
    const bool fenced_once = SimSystem::fences <= (scenario_.can_fence ? 1 : 0);
    TENON_SIM_CHECK(fenced_once);
    const bool bias_was_kept =
        !scenario_.is_kept || (SimSystem::fences == 0 && had_ >= kOwners);
    TENON_SIM_CHECK(bias_was_kept);
  }

 private:
  bool Lock(const User& user) {
    int checks = user.checks;
    const SimDeadline deadline{&checks};
    return user.keeps_bias ? lock_.LockKeepingBias(user.name, deadline)
                           : lock_.Lock(user.name, deadline);
  }

  void Use(const User& user) {
    while (user.after != 0 && !schedule_.HasEnded(user.after)) {
      SimAtomics::Pause();
    }
    for (int i = 0; i < user.times; ++i) {
      const bool got = Lock(user);
      if (!got) {
        const bool had_no_deadline = user.checks == kNever;
        TENON_SIM_CHECK(!had_no_deadline);
        continue;
      }
      const bool is_alone = ++holders_ == 1;
      TENON_SIM_CHECK(is_alone);
      data_ = data_ + 1;
      if (user.again) {
        int checks = 1;
        const bool twice = lock_.Lock(user.name, SimDeadline{&checks});
        TENON_SIM_CHECK(!twice);
      }
      ++had_;
      --holders_;
      lock_.Unlock(user.name);
    }
  }

  Schedule& schedule_;
  const Scenario& scenario_;
  BiasedLock<SimAtomics, SimSystem, P> lock_;
  SimVar<uint64_t> data_{"data"};
  // Not part of the simulation.
  uint64_t had_ = 0;
  int holders_ = 0;
};

template <typename P>
ExploreResult ExploreLock(const Scenario& scenario, uint64_t schedules) {
  return Explore({.schedules = schedules, .schedule = {.max_steps = 3000}},
                 [&](Schedule& s) { Simulation<P>(s, scenario).Run(); });
}

// The names of threads.
constexpr uint64_t kA = 8, kB = 16, kC = 24;

Scenario Two() { return {{{kA, 3}, {kB, 2}}}; }
Scenario Three() { return {{{kA, 2}, {kB, 2}, {kC, 2}}}; }
Scenario Deadlines() {
  return {{{kA, 3}, {kB, 2, /*checks=*/1}, {kC, 2}, {kB + kC, 1, 3}}};
}
Scenario Tries() { return {{{kA, 3}, {kB, 3, /*checks=*/0}, {kC, 1}}}; }
// The second and third lock it only if its bias was revoked before.
Scenario Keepers() {
  User keeper = {kB, 3, /*checks=*/0};
  keeper.keeps_bias = true;
  return {{{kA, 3}, keeper, {kC, 2}}};
}
Scenario OnlyKeepers() {
  User keeper = {kB, 3, /*checks=*/0};
  keeper.keeps_bias = true;
  User other = keeper;
  other.name = kC;
  return {.users = {{kA, kOwners}, keeper, other}, .is_kept = true};
}
Scenario Again() { return {{{kA, 2, kNever, true}, {kB, 2, 2, true}, {kC}}}; }
// The third thread has the name of the first.
Scenario NameOfTheDead() {
  return {{{kA, 2}, {kB, 2}, {kA, 2, kNever, false, /*after=*/1}}};
}
Scenario WithoutFences() {
  Scenario scenario = Deadlines();
  scenario.can_fence = false;
  return scenario;
}

struct SoundCase {
  std::string name;
  Scenario (*scenario)();
};
void PrintTo(const SoundCase& c, std::ostream* out) { *out << c.name; }

class BiasedLockScheduleTest : public testing::TestWithParam<SoundCase> {};

TEST_P(BiasedLockScheduleTest, ExcludesAndLosesNoWakeUp) {
  const ExploreResult result =
      ExploreLock<BiasProtocol>(GetParam().scenario(), ScheduleCount(300'000));
  EXPECT_TRUE(result.ok) << result.report;
}

INSTANTIATE_TEST_SUITE_P(
    All, BiasedLockScheduleTest,
    testing::Values(SoundCase{"Two", &Two}, SoundCase{"Three", &Three},
                    SoundCase{"Deadlines", &Deadlines},
                    SoundCase{"Tries", &Tries}, SoundCase{"Keepers", &Keepers},
                    SoundCase{"OnlyKeepers", &OnlyKeepers},
                    SoundCase{"Again", &Again},
                    SoundCase{"NameOfTheDead", &NameOfTheDead},
                    SoundCase{"WithoutFences", &WithoutFences}),
    [](const auto& test) { return test.param.name; });

// The failure by which a wrong variant is detected.
enum class Harm { kRace, kLostWakeUp };

struct WrongCase {
  std::string name;
  ExploreResult (*explore)(const Scenario&, uint64_t schedules);
  Scenario (*scenario)();
  Harm harm;
};
void PrintTo(const WrongCase& c, std::ostream* out) { *out << c.name; }

class WrongBiasedLockScheduleTest : public testing::TestWithParam<WrongCase> {};

TEST_P(WrongBiasedLockScheduleTest, IsCaught) {
  const WrongCase& c = GetParam();
  const ExploreResult result = c.explore(c.scenario(), 2'000'000);
  ASSERT_FALSE(result.ok);
  RecordProperty("schedules", static_cast<int>(result.schedules));
  switch (c.harm) {
    case Harm::kRace:
      EXPECT_THAT(result.failure,
                  AnyOf(HasSubstr("race"), HasSubstr("is_alone"),
                        HasSubstr("none_was_lost")));
      break;
    case Harm::kLostWakeUp:
      EXPECT_THAT(result.failure, StartsWith("livelock"));
      break;
  }
}

struct ClaimByStore : BiasProtocol {
  static constexpr bool kClaimBySwap = false;
};
struct CheckBeforeBusy : BiasProtocol {
  static constexpr bool kCheckWhenBusy = false;
};
struct NoFence : BiasProtocol {
  static constexpr bool kFenceOthers = false;
};
struct RevokedIsFree : BiasProtocol {
  static constexpr bool kAwaitRevokedOwner = false;
};
struct CheckBeforeLeaving : BiasProtocol {
  static constexpr bool kLeaveFirst = false;
};
struct SilentUnlock : BiasProtocol {
  static constexpr bool kWakeAfterUnlock = false;
};
struct SilentRetreat : BiasProtocol {
  static constexpr bool kWakeAfterRetreat = false;
};
struct UnlockByBusy : BiasProtocol {
  static constexpr bool kUnlockByName = false;
};
struct NoMark : BiasProtocol {
  static constexpr bool kMarkBeforeLeaving = false;
};
struct UnlockRelaxed : BiasProtocol {
  static constexpr auto kUnlock = std::memory_order_relaxed;
};
struct RetreatRelaxed : BiasProtocol {
  static constexpr auto kRetreat = std::memory_order_relaxed;
};
struct SeeFreeRelaxed : BiasProtocol {
  static constexpr auto kSeeFree = std::memory_order_relaxed;
};

INSTANTIATE_TEST_SUITE_P(
    All, WrongBiasedLockScheduleTest,
    testing::Values(
        WrongCase{"ClaimByStore", &ExploreLock<ClaimByStore>, &Two,
                  Harm::kRace},
        WrongCase{"CheckBeforeBusy", &ExploreLock<CheckBeforeBusy>, &Two,
                  Harm::kRace},
        WrongCase{"NoFence", &ExploreLock<NoFence>, &Two, Harm::kRace},
        WrongCase{"RevokedIsFree", &ExploreLock<RevokedIsFree>, &Deadlines,
                  Harm::kRace},
        WrongCase{"CheckBeforeLeaving", &ExploreLock<CheckBeforeLeaving>, &Two,
                  Harm::kLostWakeUp},
        WrongCase{"SilentUnlock", &ExploreLock<SilentUnlock>, &Two,
                  Harm::kLostWakeUp},
        WrongCase{"SilentRetreat", &ExploreLock<SilentRetreat>, &Two,
                  Harm::kLostWakeUp},
        WrongCase{"UnlockByBusy", &ExploreLock<UnlockByBusy>, &Two,
                  Harm::kLostWakeUp},
        WrongCase{"NoMark", &ExploreLock<NoMark>, &Deadlines,
                  Harm::kLostWakeUp},
        WrongCase{"UnlockRelaxed", &ExploreLock<UnlockRelaxed>, &Two,
                  Harm::kRace},
        WrongCase{"RetreatRelaxed", &ExploreLock<RetreatRelaxed>, &Two,
                  Harm::kRace},
        WrongCase{"SeeFreeRelaxed", &ExploreLock<SeeFreeRelaxed>, &Two,
                  Harm::kRace}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon
