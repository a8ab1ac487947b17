// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The protocols of ring and doorbell under the seeded scheduler: no record is
// lost, torn or duplicated and no wake-up is lost, whichever process is killed;
// and each of their steps and memory orders is needed.

#include <atomic>
#include <cstdint>
#include <ostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/ring/internal/ring_simulation.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct World {
  int readers = 1;
  SimVictim victim = SimVictim::kNobody;
  Publication publication = Publication::kSequential;
};

using Explorer = ExploreResult (*)(const World&, uint64_t schedules);

template <typename P>
ExploreResult ExploreWaiting(const World& world, uint64_t schedules) {
  const int kills = world.victim == SimVictim::kNobody ? 0 : 1;
  return Explore({.schedules = schedules, .schedule = {.max_kills = kills}},
                 [&](Schedule& schedule) {
                   WaitingRingSimulation<P>(schedule, world.readers,
                                            world.victim, world.publication)
                       .Run();
                 });
}

template <typename P>
ExploreResult ExploreOverwriting(const World& world, uint64_t schedules) {
  return Explore({.schedules = schedules}, [&](Schedule& schedule) {
    OverwritingRingSimulation<P>(schedule, world.publication).Run();
  });
}

constexpr Publication kFenced = Publication::kFenced;

struct SoundCase {
  std::string name;
  World world;
  Explorer explore = &ExploreWaiting<SimRingProtocol>;
};

void PrintTo(const SoundCase& c, std::ostream* out) { *out << c.name; }

class RingScheduleTest : public testing::TestWithParam<SoundCase> {};

TEST_P(RingScheduleTest, DeliversAllInOrderAndLosesNoWakeUp) {
  const ExploreResult result =
      GetParam().explore(GetParam().world, ScheduleCount(200'000));
  EXPECT_TRUE(result.ok) << result.report;
}

INSTANTIATE_TEST_SUITE_P(
    All, RingScheduleTest,
    testing::Values(
        SoundCase{"OneReader", {1}}, SoundCase{"TwoReaders", {2}},
        SoundCase{"OneReaderKilled", {1, SimVictim::kReader}},
        SoundCase{"TwoReadersOneKilled", {2, SimVictim::kReader}},
        SoundCase{"ProducerKilled", {1, SimVictim::kProducer}},
        SoundCase{"ProducerOfTwoKilled", {2, SimVictim::kProducer}},
        SoundCase{"Overwriting", {}, &ExploreOverwriting<SimRingProtocol>},
        SoundCase{"Fenced", {1, SimVictim::kNobody, kFenced}},
        SoundCase{"FencedTwoReaders", {2, SimVictim::kNobody, kFenced}},
        SoundCase{"FencedReaderKilled", {2, SimVictim::kReader, kFenced}},
        SoundCase{"FencedProducerKilled", {1, SimVictim::kProducer, kFenced}},
        SoundCase{"FencedOverwriting",
                  {1, SimVictim::kNobody, kFenced},
                  &ExploreOverwriting<SimRingProtocol>}),
    [](const auto& test) { return test.param.name; });

// The failure by which a wrong variant is detected.
enum class Harm {
  kLostWakeUp,
  kRace,    // A slot is read and written unordered.
  kRecord,  // A wrong or torn record is accepted.
  kLost,    // A record of a dead producer is not read.
  kHead,    // An honest producer's head seems to move back.
};

struct WrongCase {
  std::string name;
  Explorer explore;
  Harm harm;
  World world = {};
};

void PrintTo(const WrongCase& c, std::ostream* out) { *out << c.name; }

class WrongRingScheduleTest : public testing::TestWithParam<WrongCase> {};

TEST_P(WrongRingScheduleTest, IsCaught) {
  const WrongCase& c = GetParam();
  const ExploreResult result = c.explore(c.world, /*schedules=*/1'000'000);
  ASSERT_FALSE(result.ok);
  RecordProperty("schedules", static_cast<int>(result.schedules));
  switch (c.harm) {
    case Harm::kLostWakeUp:
      EXPECT_THAT(result.failure, StartsWith("deadlock: waiting for ever"));
      break;
    case Harm::kRace:
      EXPECT_THAT(result.failure, StartsWith("data race: "));
      break;
    case Harm::kRecord:
      EXPECT_THAT(result.failure,
                  AnyOf(HasSubstr("whole"), HasSubstr("in_order")));
      break;
    case Harm::kHead:
      EXPECT_THAT(result.failure, HasSubstr("good does not hold"));
      break;
    case Harm::kLost:
      EXPECT_THAT(result.failure, HasSubstr("all_was_read"));
      break;
  }
}

// Steps.

struct NoRecheck : SimRingProtocol {
  static constexpr bool kRecheck = false;
};
struct OneRingForEver : SimRingProtocol {
  static constexpr bool kRingForEachSleep = false;
};
struct NoFence : SimRingProtocol {
  static constexpr bool kFenceOthers = false;
};
struct AcknowledgeFirst : SimRingProtocol {
  static constexpr bool kCopyFirst = false;
};
struct DeathFirst : SimRingProtocol {
  static constexpr bool kReadBeforeDeath = false;
};
struct NoReserve : SimRingProtocol {
  static constexpr bool kReserve = false;
};
struct NoCheck : SimRingProtocol {
  static constexpr bool kCheckReserved = false;
};

INSTANTIATE_TEST_SUITE_P(
    Steps, WrongRingScheduleTest,
    testing::Values(
        WrongCase{"NoRecheck", &ExploreWaiting<NoRecheck>, Harm::kLostWakeUp},
        WrongCase{"OneRingForEver", &ExploreWaiting<OneRingForEver>,
                  Harm::kLostWakeUp},
        WrongCase{"NoFence",
                  &ExploreWaiting<NoFence>,
                  Harm::kLostWakeUp,
                  {1, SimVictim::kNobody, kFenced}},
        WrongCase{"AcknowledgeFirst", &ExploreWaiting<AcknowledgeFirst>,
                  Harm::kRace},
        WrongCase{"DeathFirst",
                  &ExploreWaiting<DeathFirst>,
                  Harm::kLost,
                  {1, SimVictim::kProducer}},
        WrongCase{"NoReserve", &ExploreOverwriting<NoReserve>, Harm::kRecord},
        WrongCase{"NoCheck", &ExploreOverwriting<NoCheck>, Harm::kRecord}),
    [](const auto& test) { return test.param.name; });

// Each memory order, weakened by one step.

struct PublishRelease : SimRingProtocol {
  static constexpr auto kPublish = std::memory_order_release;
};
struct PublishRelaxed : SimRingProtocol {
  static constexpr auto kPublish = std::memory_order_relaxed;
};
struct PublishFencedRelaxed : SimRingProtocol {
  static constexpr auto kPublishFenced = std::memory_order_relaxed;
};
struct ReserveRelaxed : SimRingProtocol {
  static constexpr auto kReserveSlot = std::memory_order_relaxed;
};
struct SeeReservedRelaxed : SimRingProtocol {
  static constexpr auto kSeeReserved = std::memory_order_relaxed;
};
struct ConsumeRelease : SimRingProtocol {
  static constexpr auto kConsume = std::memory_order_release;
};
struct ConsumeRelaxed : SimRingProtocol {
  static constexpr auto kConsume = std::memory_order_relaxed;
};
struct SeePublishedAcquire : SimRingProtocol {
  static constexpr auto kSeePublished = std::memory_order_acquire;
};
struct SeePublishedRelaxed : SimRingProtocol {
  static constexpr auto kSeePublished = std::memory_order_relaxed;
};
struct SeeConsumedAcquire : SimRingProtocol {
  static constexpr auto kSeeConsumed = std::memory_order_acquire;
};
struct SeeConsumedRelaxed : SimRingProtocol {
  static constexpr auto kSeeConsumed = std::memory_order_relaxed;
};
struct FallAsleepRelease : SimRingProtocol {
  static constexpr auto kFallAsleep = std::memory_order_release;
};
struct LoadSleepingAcquire : SimRingProtocol {
  static constexpr auto kLoadSleeping = std::memory_order_acquire;
};
struct WriteSlotRelaxed : SimRingProtocol {
  static constexpr auto kWriteSlot = std::memory_order_relaxed;
};
struct ReadSlotRelaxed : SimRingProtocol {
  static constexpr auto kReadSlot = std::memory_order_relaxed;
};

INSTANTIATE_TEST_SUITE_P(
    Orders, WrongRingScheduleTest,
    testing::Values(
        WrongCase{"PublishRelease", &ExploreWaiting<PublishRelease>,
                  Harm::kLostWakeUp},
        WrongCase{"PublishFencedRelaxed",
                  &ExploreWaiting<PublishFencedRelaxed>,
                  Harm::kRace,
                  {1, SimVictim::kNobody, kFenced}},
        WrongCase{"ReserveRelaxed",
                  &ExploreOverwriting<ReserveRelaxed>,
                  Harm::kHead,
                  {1, SimVictim::kNobody, kFenced}},
        WrongCase{"SeeReservedRelaxed",
                  &ExploreOverwriting<SeeReservedRelaxed>,
                  Harm::kHead,
                  {1, SimVictim::kNobody, kFenced}},
        WrongCase{"PublishRelaxed", &ExploreWaiting<PublishRelaxed>,
                  Harm::kRace},
        WrongCase{"ConsumeRelease", &ExploreWaiting<ConsumeRelease>,
                  Harm::kLostWakeUp},
        WrongCase{"ConsumeRelaxed", &ExploreWaiting<ConsumeRelaxed>,
                  Harm::kRace},
        WrongCase{"SeePublishedAcquire", &ExploreWaiting<SeePublishedAcquire>,
                  Harm::kLostWakeUp},
        WrongCase{"SeePublishedRelaxed", &ExploreWaiting<SeePublishedRelaxed>,
                  Harm::kRace},
        WrongCase{"SeeConsumedAcquire", &ExploreWaiting<SeeConsumedAcquire>,
                  Harm::kLostWakeUp},
        WrongCase{"SeeConsumedRelaxed", &ExploreWaiting<SeeConsumedRelaxed>,
                  Harm::kRace},
        WrongCase{"FallAsleepRelease", &ExploreWaiting<FallAsleepRelease>,
                  Harm::kLostWakeUp},
        WrongCase{"LoadSleepingAcquire", &ExploreWaiting<LoadSleepingAcquire>,
                  Harm::kLostWakeUp},
        WrongCase{"WriteSlotRelaxed", &ExploreOverwriting<WriteSlotRelaxed>,
                  Harm::kRecord},
        WrongCase{"ReadSlotRelaxed", &ExploreOverwriting<ReadSlotRelaxed>,
                  Harm::kRecord}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon
