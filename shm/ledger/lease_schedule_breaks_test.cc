// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Wrong variants of the lease protocol under the seeded scheduler: each of its
// rules and memory orders is needed.

#include <atomic>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/ledger/lease_route.h"
#include "tenon/shm/ledger/lease_simulation.h"
#include "tenon/shm/testing/scheduler/explore.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The harm by which a wrong variant is detected.
enum class Harm {
  kClaimFails,  // Though no process was killed.
  kReuse,       // Of a block that is held, or was read without order.
  kFailOrReuse,
  kTwice,    // An item of a queue is delivered.
  kRetired,  // A block that is held, or was read without order.
  kStuck,    // The owner does not get the block back, or a process waits.
};

struct WrongCase {
  std::string name;
  LeaseExplorer explore;
  Harm harm;
  LeaseRoute route;
  int max_kills;
};

void PrintTo(const WrongCase& c, std::ostream* out) { *out << c.name; }

template <typename P>
WrongCase Wrong(std::string name, Harm harm, LeaseRoute route = {{0, 1, 2}},
                int max_kills = 0) {
  return {std::move(name), &ExploreLease<P>, harm, std::move(route), max_kills};
}

testing::Matcher<std::string> FailureOf(Harm harm) {
  const auto fails = HasSubstr("!fails_with_all_alive");
  const auto race = StartsWith("data race: ");
  const auto reuse = AnyOf(HasSubstr("!reused_while_held"), race);
  switch (harm) {
    case Harm::kClaimFails:
      return fails;
    case Harm::kReuse:
      return reuse;
    case Harm::kFailOrReuse:
      return AnyOf(fails, reuse);
    case Harm::kTwice:
      return HasSubstr("!delivered_twice");
    case Harm::kRetired:
      return AnyOf(HasSubstr("!retired_while_held"), race);
    case Harm::kStuck:
      break;
  }
  return StartsWith("livelock: ");
}

class WrongLeaseScheduleTest : public testing::TestWithParam<WrongCase> {};

TEST_P(WrongLeaseScheduleTest, IsCaught) {
  const WrongCase& c = GetParam();
  const ExploreResult result =
      c.explore({c.route, c.max_kills, /*schedules=*/2'000'000});
  ASSERT_FALSE(result.ok) << result.schedules;
  RecordProperty("schedules", static_cast<int>(result.schedules));
  EXPECT_THAT(result.failure, FailureOf(c.harm));
}

// The wrong variants of the reference model, by their names there. (One has no
// order that could be explored: a block of a retired segment is handed out.)

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
        Wrong<AckFirst>("AckFirst", Harm::kClaimFails),
        Wrong<DropEarly>("DropEarly", Harm::kClaimFails),
        Wrong<NoClaims>("NoClaims", Harm::kClaimFails,
                        {{0, 1, 0, 1, 0}, /*reversed=*/true}),
        Wrong<OnePass>("OnePass", Harm::kClaimFails,
                       {{0, 1, 2}, /*reversed=*/true}),
        Wrong<NoGen>("NoGen", Harm::kReuse, {{0, 1, 2}}, 1),
        Wrong<AttachLate>("AttachLate", Harm::kFailOrReuse),
        Wrong<DrainOnce>("DrainOnce", Harm::kClaimFails),
        Wrong<TakeFirst>("TakeFirst", Harm::kClaimFails, {{0, kQueue}}),
        Wrong<TakeWithoutSwap>("TakeWithoutSwap", Harm::kTwice, {{0, kQueue}})),
    [](const auto& test) { return test.param.name; });

struct DetachHolding : SimLeaseProtocol {
  static constexpr bool kHangUpWhenReleased = false;
};
struct ClaimEnded : SimLeaseProtocol {
  static constexpr bool kClaimThroughNewest = false;
};
struct ReattachUnseen : SimLeaseProtocol {
  static constexpr bool kSendAnew = false;
};
struct EndProcess : SimLeaseProtocol {
  static constexpr bool kEndIsOfOne = false;
};
struct EndAmid : SimLeaseProtocol {
  static constexpr bool kEndsBetweenTests = false;
};
struct LimitUnchecked : SimLeaseProtocol {
  static constexpr bool kCheckLimit = false;
};
struct LimitUnseen : SimLeaseProtocol {
  static constexpr bool kEndsSeenAtLimit = false;
};
struct LeaseUnchecked : SimLeaseProtocol {
  static constexpr bool kPollAtClaims = false;
  static constexpr bool kPollNowAndThen = false;
};
// A process that makes no further claims, and is refused after its last claim.
struct LeaseCheckedAtClaimsOnly : SimLeaseProtocol {
  static constexpr bool kPollNowAndThen = false;
};
struct RefusedUnseen : SimLeaseProtocol {
  static constexpr bool kRefusedWithholds = false;
};
struct RefusedAtRelease : SimLeaseProtocol {
  static constexpr bool kRefusalsWhenTaken = false;
};
struct RefusalOverlooked : SimLeaseProtocol {
  static constexpr bool kPollAtClaims = false;
};
struct RefusedUnwatched : SimLeaseProtocol {
  static constexpr bool kRefusedWatched = false;
};
struct RetireHeld : SimLeaseProtocol {
  static constexpr bool kRetireReclaimed = false;
};
struct RetireEarly : SimLeaseProtocol {
  static constexpr bool kRetireNewGeneration = false;
};
struct GenReset : SimLeaseProtocol {
  static constexpr bool kGenerationGoesOn = false;
};
// The model has no variants for these.
struct RefusalCountedFirst : SimLeaseProtocol {
  static constexpr bool kShutThenCount = false;
};
// A process counts an attachment until the owner has shut its end.
struct ReceiveLate : SimLeaseProtocol {
  static constexpr bool kCountUntilShut = true;
  static constexpr bool kReceiveUntested = false;
};
struct GiveAttached : SimLeaseProtocol {
  static constexpr bool kGiveDetachedOnly = false;
};
struct GiveUnseen : SimLeaseProtocol {
  static constexpr bool kSendToOtherArena = false;
};

INSTANTIATE_TEST_SUITE_P(
    Events, WrongLeaseScheduleTest,
    testing::Values(
        Wrong<DetachHolding>("DetachHolding", Harm::kFailOrReuse,
                             {.hops = {0, 1, 0}, .detaching = 0b10}),
        Wrong<ClaimEnded>("ClaimEnded", Harm::kFailOrReuse,
                          {.hops = {0, 1, 0}, .detaching = 0b11}),
        Wrong<ReattachUnseen>("ReattachUnseen", Harm::kFailOrReuse,
                              {.hops = {0, 1, 0}, .detaching = 0b11}),
        Wrong<EndProcess>("EndProcess", Harm::kFailOrReuse,
                          {.hops = {0, 1, 0}, .detaching = 0b11}),
        Wrong<EndAmid>("EndAmid", Harm::kClaimFails,
                       {.hops = {0, 1, 2, 3},
                        .reversed = true,
                        .detaching = 0b10,
                        .attached = 0b1111}),
        Wrong<LimitUnchecked>(
            "LimitUnchecked", Harm::kStuck,
            {.hops = {0, 1, 0}, .detaching = 0b11, .limit = 1}),
        Wrong<LimitUnseen>("LimitUnseen", Harm::kStuck,
                           {.hops = {0, 1, 0}, .detaching = 0b11, .limit = 1}),
        Wrong<ReceiveLate>("ReceiveLate", Harm::kStuck,
                           {.hops = {0, 1, 0}, .detaching = 0b11, .limit = 1}),
        Wrong<LeaseUnchecked>("LeaseUnchecked", Harm::kStuck,
                              {.hops = {0, 1, 0}, .refused = 0b10}),
        Wrong<LeaseCheckedAtClaimsOnly>("LeaseCheckedAtClaimsOnly",
                                        Harm::kStuck,
                                        {.hops = {0, 1, 0}, .refused = 0b10}),
        Wrong<RefusedUnseen>("RefusedUnseen", Harm::kFailOrReuse,
                             {.hops = {0, 1, 0}, .refused = 0b10}),
        Wrong<RefusedAtRelease>(
            "RefusedAtRelease", Harm::kFailOrReuse,
            {.hops = {0, 1, 0}, .refused = 0b10, .before = 0b10}),
        Wrong<RefusalOverlooked>(
            "RefusalOverlooked", Harm::kFailOrReuse,
            {.hops = {0, 1, 0}, .refused = 0b10, .before = 0b10}),
        Wrong<RefusalCountedFirst>(
            "RefusalCountedFirst", Harm::kFailOrReuse,
            {.hops = {0, 1, 0}, .refused = 0b10, .before = 0b10}),
        Wrong<RefusedUnwatched>("RefusedUnwatched", Harm::kStuck,
                                {.hops = {0, 1, 0}, .refused = 0b10}),
        Wrong<RefusedUnwatched>("RefusedUnwatchedKill", Harm::kStuck,
                                {.hops = {0, 1, 0}, .refused = 0b10}, 1),
        Wrong<RetireHeld>("RetireHeld", Harm::kRetired,
                          {.hops = {0, 1, 2}, .retired = true}),
        Wrong<RetireEarly>("RetireEarly", Harm::kRetired,
                           {.hops = {0, 1, 2}, .retired = true}, 1),
        Wrong<GenReset>("GenReset", Harm::kRetired,
                        {.hops = {0, 1, 2}, .retired = true}, 1),
        Wrong<GiveAttached>("GiveAttached", Harm::kStuck,
                            {.hops = {0, 1, 2}, .moving = true}),
        Wrong<GiveUnseen>("GiveUnseen", Harm::kReuse,
                          {.hops = {0, 1, 2}, .moving = true}),
        Wrong<DetachHolding>("GiveHolding", Harm::kFailOrReuse,
                             {.hops = {0, 1, 2}, .moving = true})),
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
  static constexpr auto kSocketRead = std::memory_order_acquire;
};
struct SocketSendAcqRel : SocketIsAWord {
  static constexpr auto kSocketSend = std::memory_order_acq_rel;
};
struct DropReferenceRelease : SimLeaseProtocol {
  static constexpr auto kDropReference = std::memory_order_release;
};
struct DropReferenceAcquire : SimLeaseProtocol {
  static constexpr auto kDropReference = std::memory_order_acquire;
};
struct HangUpAcquire : SimLeaseProtocol {
  static constexpr auto kHangUp = std::memory_order_acquire;
};
struct ShutRelease : SimLeaseProtocol {
  static constexpr auto kShut = std::memory_order_release;
};
struct CountRefusalRelaxed : SimLeaseProtocol {
  static constexpr auto kCountRefusal = std::memory_order_relaxed;
};
struct ReadRefusalsRelaxed : SimLeaseProtocol {
  static constexpr auto kReadRefusals = std::memory_order_relaxed;
};
struct NoteHangUpRelaxed : SimLeaseProtocol {
  static constexpr auto kNoteHangUp = std::memory_order_relaxed;
};
struct RetireRelaxed : SimLeaseProtocol {
  static constexpr auto kRetire = std::memory_order_relaxed;
};
struct SweepRelaxed : SimLeaseProtocol {
  static constexpr auto kSweep = std::memory_order_relaxed;
};

INSTANTIATE_TEST_SUITE_P(
    Orders, WrongLeaseScheduleTest,
    testing::Values(
        Wrong<ClaimAcqRel>("ClaimAcqRel", Harm::kReuse, {{0, 1, 2}}, 1),
        Wrong<LoadGenerationAcquire>("LoadGenerationAcquire", Harm::kReuse,
                                     {{0, 1, 2}}, 1),
        Wrong<StoreGenerationRelease>("StoreGenerationRelease", Harm::kReuse,
                                      {{0, 1, 2}}, 1),
        Wrong<SecondTestAcquire>("SecondTestAcquire", Harm::kReuse, {{0, 1, 2}},
                                 1),
        Wrong<FirstTestRelaxed>("FirstTestRelaxed", Harm::kClaimFails),
        Wrong<ReleaseRelaxed>("ReleaseRelaxed", Harm::kReuse),
        Wrong<AcknowledgeRelaxed>("AcknowledgeRelaxed", Harm::kClaimFails),
        Wrong<TakeAcquire>("TakeAcquire", Harm::kClaimFails, {{0, kQueue, 3}}),
        Wrong<SocketLookAcquire>("SocketLookAcquire", Harm::kReuse, {{0, 1, 2}},
                                 1),
        Wrong<SocketSendAcqRel>("SocketSendAcqRel", Harm::kReuse, {{0, 1, 2}},
                                1),
        Wrong<DropReferenceRelease>("DropReferenceRelease", Harm::kReuse,
                                    {.hops = {0, 1, 2}, .detaching = 0b110}),
        Wrong<DropReferenceAcquire>("DropReferenceAcquire", Harm::kReuse,
                                    {.hops = {0, 1, 2}, .detaching = 0b110}),
        Wrong<HangUpAcquire>("HangUpAcquire", Harm::kReuse,
                             {.hops = {0, 1, 2}, .detaching = 0b110}),
        Wrong<ShutRelease>("ShutRelease", Harm::kReuse,
                           {.hops = {0, 1, 2}, .detaching = 0b110}),
        Wrong<ShutRelease>("ShutRefusedRelease", Harm::kReuse,
                           {.hops = {0, 1, 2}, .refused = 0b110}),
        Wrong<CountRefusalRelaxed>(
            "CountRefusalRelaxed", Harm::kFailOrReuse,
            {.hops = {0, 1, 0}, .refused = 0b10, .before = 0b10}),
        Wrong<ReadRefusalsRelaxed>(
            "ReadRefusalsRelaxed", Harm::kFailOrReuse,
            {.hops = {0, 1, 0}, .refused = 0b10, .before = 0b10}),
        Wrong<NoteHangUpRelaxed>(
            "NoteHangUpRelaxed", Harm::kStuck,
            {.hops = {0, 1, 0}, .detaching = 0b11, .limit = 1}),
        Wrong<RetireRelaxed>("RetireRelaxed", Harm::kRetired,
                             {.hops = {0, 1, 2}, .retired = true}),
        Wrong<SweepRelaxed>("SweepRelaxed", Harm::kRetired,
                            {.hops = {0, 1, 2}, .retired = true})),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon
