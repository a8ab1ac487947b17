// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The lease protocol under the seeded scheduler: on every route of the
// reference model it keeps what it promises, and each of its steps and memory
// orders is needed.

#include <atomic>
#include <cstdint>
#include <ostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/ledger/lease_simulation.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Exploration {
  LeaseRoute route;
  int max_kills = 0;
  uint64_t schedules = 0;
};

using Explorer = ExploreResult (*)(const Exploration&);

template <typename P>
ExploreResult ExploreLease(const Exploration& e) {
  const ExploreOptions options = {.schedules = e.schedules,
                                  .schedule = {.max_kills = e.max_kills}};
  return Explore(options, [&](Schedule& schedule) {
    LeaseSimulation<P>(schedule, e.route).Run();
  });
}

// An attachment is told by a word of shared memory, and no call of the kernel
// is made to see that there is none.
struct SocketIsAWord : SimLeaseProtocol {
  static constexpr bool kSocketHasLock = false;
  static constexpr auto kSocketSend = std::memory_order_seq_cst;
  static constexpr auto kSocketLook = std::memory_order_seq_cst;
};

struct SoundCase {
  std::string name;
  LeaseRoute route;
  int max_kills = 0;
  Explorer explore = &ExploreLease<SimLeaseProtocol>;
};

void PrintTo(const SoundCase& c, std::ostream* out) { *out << c.name; }

class LeaseScheduleTest : public testing::TestWithParam<SoundCase> {};

TEST_P(LeaseScheduleTest, NeverReusesWhatIsHeldNorLosesWhatNobodyKilled) {
  const SoundCase& c = GetParam();
  for (const bool reversed : {false, true}) {
    LeaseRoute route = c.route;
    route.reversed = reversed;
    const ExploreResult result =
        c.explore({route, c.max_kills, ScheduleCount(50'000)});
    EXPECT_TRUE(result.ok) << result.report;
  }
}

// The first four are the reference model's.
INSTANTIATE_TEST_SUITE_P(
    All, LeaseScheduleTest,
    testing::Values(
        SoundCase{"ThereAndOn", {{0, 1, 2}}},
        SoundCase{"ThereAndOnKill", {{0, 1, 2}}, 1},
        SoundCase{"ThereAndOnTwoKills", {{0, 1, 2}}, 2},
        SoundCase{"BackAndForth", {{0, 1, 0, 1, 0}}},
        SoundCase{"BackAndForthKill", {{0, 1, 0, 1, 0}}, 1},
        SoundCase{"BackAndForthTwoKills", {{0, 1, 0, 1, 0}}, 2},
        SoundCase{"Round", {{0, 1, 2, 0}}},
        SoundCase{"RoundKill", {{0, 1, 2, 0}}, 1},
        SoundCase{"RoundTwoKills", {{0, 1, 2, 0}}, 2},
        SoundCase{"Queue", {{0, kQueue}}},
        SoundCase{"QueueKill", {{0, kQueue}}, 1},
        SoundCase{"QueueTwoKills", {{0, kQueue}}, 2},
        SoundCase{"OneHop", {{0, 1}}}, SoundCase{"OneHopKill", {{0, 1}}, 1},
        SoundCase{"Returns", {{0, 1, 2, 1}}},
        SoundCase{"ReturnsKill", {{0, 1, 2, 1}}, 1},
        SoundCase{"LongReturn", {{0, 1, 2, 1, 2, 1}}},
        SoundCase{"LongReturnTwoKills", {{0, 1, 2, 1, 2, 1}}, 2},
        SoundCase{"ThreeHops", {{0, 1, 2, 3}}},
        SoundCase{"ThreeHopsTwoKills", {{0, 1, 2, 3}}, 2},
        SoundCase{"QueueAfterHop", {{0, 3, kQueue}}},
        SoundCase{"QueueAfterHopTwoKills", {{0, 3, kQueue}}, 2},
        SoundCase{"QueueBeforeHop", {{0, kQueue, 3}}},
        SoundCase{"QueueBeforeHopTwoKills", {{0, kQueue, 3}}, 2},
        SoundCase{
            "SocketIsAWord", {{0, 1, 2}}, 0, &ExploreLease<SocketIsAWord>},
        SoundCase{"SocketIsAWordTwoKills",
                  {{0, 1, 2}},
                  2,
                  &ExploreLease<SocketIsAWord>}),
    [](const auto& test) { return test.param.name; });

// What a wrong variant is caught at.
enum class Harm {
  kClaimFails,  // Though nobody was killed.
  kReuse,       // Of a block that is held, or was read without order.
  kFailOrReuse,
  kTwice,  // An item of a queue is delivered.
};

struct WrongCase {
  std::string name;
  Explorer explore;
  Harm harm;
  LeaseRoute route = {{0, 1, 2}};
  int max_kills = 0;
};

void PrintTo(const WrongCase& c, std::ostream* out) { *out << c.name; }

class WrongLeaseScheduleTest : public testing::TestWithParam<WrongCase> {};

TEST_P(WrongLeaseScheduleTest, IsCaught) {
  const WrongCase& c = GetParam();
  const ExploreResult result =
      c.explore({c.route, c.max_kills, /*schedules=*/2'000'000});
  ASSERT_FALSE(result.ok);
  RecordProperty("schedules", static_cast<int>(result.schedules));
  switch (c.harm) {
    case Harm::kClaimFails:
      EXPECT_THAT(result.failure, HasSubstr("!fails_with_all_alive"));
      break;
    case Harm::kReuse:
      EXPECT_THAT(result.failure, AnyOf(HasSubstr("!reused_while_held"),
                                        StartsWith("data race: ")));
      break;
    case Harm::kFailOrReuse:
      EXPECT_THAT(result.failure, AnyOf(HasSubstr("!fails_with_all_alive"),
                                        HasSubstr("!reused_while_held"),
                                        StartsWith("data race: ")));
      break;
    case Harm::kTwice:
      EXPECT_THAT(result.failure, HasSubstr("!delivered_twice"));
      break;
  }
}

// The wrong variants of the reference model, by their names there.

struct AckFirst : SimLeaseProtocol {
  static constexpr bool kAcknowledgeFirst = true;
};
struct DropEarly : SimLeaseProtocol {
  static constexpr bool kDropEarly = true;
};
struct NoClaims : SimLeaseProtocol {
  static constexpr uint64_t kClaimStep = LeaseCell::kHeld;
};
struct OnePass : SimLeaseProtocol {
  static constexpr int kPasses = 1;
};
struct NoGen : SimLeaseProtocol {
  static constexpr bool kCheckGeneration = false;
};
struct AttachLate : SimLeaseProtocol {
  static constexpr bool kAttachLate = true;
};
struct DrainOnce : SimLeaseProtocol {
  static constexpr bool kInboxAfterPasses = false;
};
struct TakeFirst : SimLeaseProtocol {
  static constexpr bool kTakeFirst = true;
};
// It has no variant for this; there the queue's word changes in one step.
struct TakeWithoutSwap : SimLeaseProtocol {
  static constexpr bool kTakeBySwap = false;
};

INSTANTIATE_TEST_SUITE_P(
    Steps, WrongLeaseScheduleTest,
    testing::Values(
        WrongCase{"AckFirst", &ExploreLease<AckFirst>, Harm::kClaimFails},
        WrongCase{"DropEarly", &ExploreLease<DropEarly>, Harm::kClaimFails},
        WrongCase{"NoClaims",
                  &ExploreLease<NoClaims>,
                  Harm::kClaimFails,
                  {{0, 1, 0, 1, 0}, /*reversed=*/true}},
        WrongCase{"OnePass",
                  &ExploreLease<OnePass>,
                  Harm::kClaimFails,
                  {{0, 1, 2}, /*reversed=*/true}},
        WrongCase{"NoGen", &ExploreLease<NoGen>, Harm::kReuse, {{0, 1, 2}}, 1},
        WrongCase{"AttachLate", &ExploreLease<AttachLate>, Harm::kFailOrReuse},
        WrongCase{"DrainOnce", &ExploreLease<DrainOnce>, Harm::kClaimFails},
        WrongCase{"TakeFirst",
                  &ExploreLease<TakeFirst>,
                  Harm::kClaimFails,
                  {{0, kQueue}}},
        WrongCase{"TakeWithoutSwap",
                  &ExploreLease<TakeWithoutSwap>,
                  Harm::kTwice,
                  {{0, kQueue}}}),
    [](const auto& test) { return test.param.name; });

// Each memory order, weakened by one step.

struct ClaimAcqRel : SimLeaseProtocol {
  static constexpr auto kClaim = std::memory_order_acq_rel;
};
struct LoadGenerationAcquire : SimLeaseProtocol {
  static constexpr auto kLoadGeneration = std::memory_order_acquire;
};
struct StoreGenerationRelease : SimLeaseProtocol {
  static constexpr auto kStoreGeneration = std::memory_order_release;
};
struct SecondTestAcquire : SimLeaseProtocol {
  static constexpr auto kSecondTest = std::memory_order_acquire;
};
struct FirstTestRelaxed : SimLeaseProtocol {
  static constexpr auto kFirstTest = std::memory_order_relaxed;
};
struct ReleaseRelaxed : SimLeaseProtocol {
  static constexpr auto kRelease = std::memory_order_relaxed;
};
struct AcknowledgeRelaxed : SimLeaseProtocol {
  static constexpr auto kAcknowledge = std::memory_order_relaxed;
};
struct TakeAcquire : SimLeaseProtocol {
  static constexpr auto kTake = std::memory_order_acquire;
};
struct SocketLookAcquire : SocketIsAWord {
  static constexpr auto kSocketLook = std::memory_order_acquire;
};
struct SocketSendAcqRel : SocketIsAWord {
  static constexpr auto kSocketSend = std::memory_order_acq_rel;
};

INSTANTIATE_TEST_SUITE_P(
    Orders, WrongLeaseScheduleTest,
    testing::Values(WrongCase{"ClaimAcqRel",
                              &ExploreLease<ClaimAcqRel>,
                              Harm::kReuse,
                              {{0, 1, 2}},
                              1},
                    WrongCase{"LoadGenerationAcquire",
                              &ExploreLease<LoadGenerationAcquire>,
                              Harm::kReuse,
                              {{0, 1, 2}},
                              1},
                    WrongCase{"StoreGenerationRelease",
                              &ExploreLease<StoreGenerationRelease>,
                              Harm::kReuse,
                              {{0, 1, 2}},
                              1},
                    WrongCase{"SecondTestAcquire",
                              &ExploreLease<SecondTestAcquire>,
                              Harm::kReuse,
                              {{0, 1, 2}},
                              1},
                    WrongCase{"FirstTestRelaxed",
                              &ExploreLease<FirstTestRelaxed>,
                              Harm::kClaimFails},
                    WrongCase{"ReleaseRelaxed", &ExploreLease<ReleaseRelaxed>,
                              Harm::kReuse},
                    WrongCase{"AcknowledgeRelaxed",
                              &ExploreLease<AcknowledgeRelaxed>,
                              Harm::kClaimFails},
                    WrongCase{"TakeAcquire",
                              &ExploreLease<TakeAcquire>,
                              Harm::kClaimFails,
                              {{0, kQueue, 3}}},
                    WrongCase{"SocketLookAcquire",
                              &ExploreLease<SocketLookAcquire>,
                              Harm::kReuse,
                              {{0, 1, 2}},
                              1},
                    WrongCase{"SocketSendAcqRel",
                              &ExploreLease<SocketSendAcqRel>,
                              Harm::kReuse,
                              {{0, 1, 2}},
                              1}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon
