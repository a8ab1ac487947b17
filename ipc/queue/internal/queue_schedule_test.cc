// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The protocols of queue and doorbell under the seeded scheduler: each item is
// received once and whole and no wake-up is lost, whichever process is killed;
// and each of their steps and memory orders is needed.

#include <atomic>
#include <cstdint>
#include <ostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/queue/internal/queue_simulation.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename P, uint64_t kSlots = 2,
          Publication kPublication = Publication::kSequential>
ExploreResult ExploreQueue(QueueVictim victim, uint64_t schedules) {
  const int kills = victim == QueueVictim::kNobody ? 0 : 1;
  return Explore(
      {.schedules = schedules, .schedule = {.max_kills = kills}},
      [&](Schedule& schedule) {
        QueueSimulation<P, kSlots>(schedule, victim, kPublication).Run();
      });
}

class QueueScheduleTest : public testing::TestWithParam<QueueVictim> {};

TEST_P(QueueScheduleTest, EachItemIsGotOnceAndNoWakeUpIsLost) {
  const ExploreResult result =
      ExploreQueue<SimQueueProtocol>(GetParam(), ScheduleCount(350'000));
  EXPECT_TRUE(result.ok) << result.report;
}

TEST_P(QueueScheduleTest, AlsoWhereSleepersFenceAll) {
  const ExploreResult result =
      ExploreQueue<SimQueueProtocol, 2, Publication::kFenced>(
          GetParam(), ScheduleCount(200'000));
  EXPECT_TRUE(result.ok) << result.report;
}

TEST_P(QueueScheduleTest, AlsoWithOneSlot) {
  const ExploreResult result =
      ExploreQueue<SimQueueProtocol, 1>(GetParam(), ScheduleCount(50'000));
  EXPECT_TRUE(result.ok) << result.report;
}

INSTANTIATE_TEST_SUITE_P(All, QueueScheduleTest,
                         testing::Values(QueueVictim::kNobody,
                                         QueueVictim::kPutter,
                                         QueueVictim::kPutterWithHeir,
                                         QueueVictim::kGetter),
                         [](const auto& victim) {
                           switch (victim.param) {
                             case QueueVictim::kNobody:
                               return "NoneKilled";
                             case QueueVictim::kPutter:
                               return "PutterKilled";
                             case QueueVictim::kPutterWithHeir:
                               return "PutterKilledAndInherited";
                             case QueueVictim::kGetter:
                               break;
                           }
                           return "GetterKilled";
                         });

// The failure by which a wrong variant is detected.
enum class Harm {
  kLostWakeUp,
  kItem,   // A wrong or torn item is accepted.
  kTwice,  // An item is received twice.
  kLost,   // An item of a dead putter is not received.
  kPart,   // A part of a dead putter's batch was put.
};

struct WrongCase {
  std::string name;
  ExploreResult (*explore)(QueueVictim, uint64_t schedules);
  Harm harm;
  QueueVictim victim = QueueVictim::kNobody;
};

void PrintTo(const WrongCase& c, std::ostream* out) { *out << c.name; }

class WrongQueueScheduleTest : public testing::TestWithParam<WrongCase> {};

TEST_P(WrongQueueScheduleTest, IsCaught) {
  const WrongCase& c = GetParam();
  const ExploreResult result = c.explore(c.victim, /*schedules=*/1'000'000);
  ASSERT_FALSE(result.ok);
  RecordProperty("schedules", static_cast<int>(result.schedules));
  switch (c.harm) {
    case Harm::kLostWakeUp:
      EXPECT_THAT(result.failure, StartsWith("deadlock: waiting for ever"));
      break;
    case Harm::kItem:
      EXPECT_THAT(result.failure,
                  AnyOf(HasSubstr("whole"), HasSubstr("right")));
      break;
    case Harm::kTwice:
      EXPECT_THAT(result.failure, AnyOf(HasSubstr("first"), HasSubstr("good")));
      break;
    case Harm::kLost:
      EXPECT_THAT(result.failure, HasSubstr("was_got"));
      break;
    case Harm::kPart:
      EXPECT_THAT(result.failure, HasSubstr("whole_batches"));
      break;
  }
}

// Steps.

struct NoRecheck : SimQueueProtocol {
  static constexpr bool kRecheck = false;
};
struct OneRingForEver : SimQueueProtocol {
  static constexpr bool kRingForEachSleep = false;
};
struct RingOne : SimQueueProtocol {
  static constexpr bool kRingAll = false;
};
struct NoFence : SimQueueProtocol {
  static constexpr bool kFenceOthers = false;
};
struct TakeFirst : SimQueueProtocol {
  static constexpr bool kCopyFirst = false;
};
struct NoCheckOfCopy : SimQueueProtocol {
  static constexpr bool kCheckCopy = false;
};
struct NoCas : SimQueueProtocol {
  static constexpr bool kCas = false;
};
struct EndFirst : SimQueueProtocol {
  static constexpr bool kGetBeforeEnd = false;
};
struct SequenceBeforeWords : SimQueueProtocol {
  static constexpr bool kWordsFirst = false;
};
struct HeadBeforeSequence : SimQueueProtocol {
  static constexpr bool kHeadLast = false;
};
struct BatchInOrder : SimQueueProtocol {
  static constexpr bool kBatchAtOnce = false;
};
struct NoWithdrawal : SimQueueProtocol {
  static constexpr bool kWithdraw = false;
};

INSTANTIATE_TEST_SUITE_P(
    Steps, WrongQueueScheduleTest,
    testing::Values(
        WrongCase{"NoRecheck", &ExploreQueue<NoRecheck>, Harm::kLostWakeUp},
        WrongCase{"OneRingForEver", &ExploreQueue<OneRingForEver>,
                  Harm::kLostWakeUp},
        WrongCase{"RingOne", &ExploreQueue<RingOne>, Harm::kLostWakeUp,
                  QueueVictim::kGetter},
        WrongCase{"NoFence", &ExploreQueue<NoFence, 2, Publication::kFenced>,
                  Harm::kLostWakeUp},
        WrongCase{"TakeFirst", &ExploreQueue<TakeFirst>, Harm::kItem},
        WrongCase{"NoCheckOfCopy", &ExploreQueue<NoCheckOfCopy>, Harm::kItem},
        WrongCase{"NoCas", &ExploreQueue<NoCas>, Harm::kTwice},
        WrongCase{"EndFirst", &ExploreQueue<EndFirst>, Harm::kLost,
                  QueueVictim::kPutter},
        WrongCase{"SequenceBeforeWords", &ExploreQueue<SequenceBeforeWords>,
                  Harm::kItem},
        WrongCase{"HeadBeforeSequence", &ExploreQueue<HeadBeforeSequence>,
                  Harm::kLost, QueueVictim::kPutter},
        WrongCase{"BatchInOrder", &ExploreQueue<BatchInOrder>, Harm::kPart,
                  QueueVictim::kPutter},
        WrongCase{"NoWithdrawal", &ExploreQueue<NoWithdrawal>, Harm::kItem,
                  QueueVictim::kPutterWithHeir}),
    [](const auto& test) { return test.param.name; });

// Memory orders, weakened by one step or more. Those of the slots alone are not
// here: the scheduler runs the operations of a thread in their order, and then
// the check of a copy, which is sequentially consistent, suffices.

struct PublishRelease : SimQueueProtocol {
  static constexpr auto kPublish = std::memory_order_release;
};
struct PublishRelaxed : SimQueueProtocol {
  static constexpr auto kPublish = std::memory_order_relaxed;
  static constexpr auto kWriteSlot = std::memory_order_relaxed;
};
struct ConsumeAcquireRelease : SimQueueProtocol {
  static constexpr auto kConsume = std::memory_order_acq_rel;
};
struct SeePublishedAcquire : SimQueueProtocol {
  static constexpr auto kSeePublished = std::memory_order_acquire;
};
struct SeePublishedRelaxed : SimQueueProtocol {
  static constexpr auto kSeePublished = std::memory_order_relaxed;
};
struct SeeConsumedAcquire : SimQueueProtocol {
  static constexpr auto kSeeConsumed = std::memory_order_acquire;
};
struct FallAsleepRelease : SimQueueProtocol {
  static constexpr auto kFallAsleep = std::memory_order_release;
};
struct LoadSleepingAcquire : SimQueueProtocol {
  static constexpr auto kLoadSleeping = std::memory_order_acquire;
};
INSTANTIATE_TEST_SUITE_P(
    Orders, WrongQueueScheduleTest,
    testing::Values(
        WrongCase{"PublishRelease", &ExploreQueue<PublishRelease>,
                  Harm::kLostWakeUp},
        WrongCase{"PublishRelaxed", &ExploreQueue<PublishRelaxed>, Harm::kItem},
        WrongCase{"ConsumeAcquireRelease",
                  &ExploreQueue<ConsumeAcquireRelease, 1>, Harm::kLostWakeUp},
        WrongCase{"SeePublishedAcquire", &ExploreQueue<SeePublishedAcquire>,
                  Harm::kLostWakeUp},
        WrongCase{"SeePublishedRelaxed", &ExploreQueue<SeePublishedRelaxed>,
                  Harm::kItem},
        WrongCase{"SeeConsumedAcquire", &ExploreQueue<SeeConsumedAcquire>,
                  Harm::kLostWakeUp},
        WrongCase{"FallAsleepRelease", &ExploreQueue<FallAsleepRelease>,
                  Harm::kLostWakeUp},
        WrongCase{"LoadSleepingAcquire", &ExploreQueue<LoadSleepingAcquire>,
                  Harm::kLostWakeUp}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon
