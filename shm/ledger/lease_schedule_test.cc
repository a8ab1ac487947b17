// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The lease protocol under the seeded scheduler: on every route of the
// reference model, with its events, it keeps its guarantees.

#include <ostream>
#include <string>

#include "gtest/gtest.h"
#include "tenon/shm/ledger/lease_route.h"
#include "tenon/shm/ledger/lease_simulation.h"
#include "tenon/shm/testing/scheduler/explore.h"

namespace tenon {
namespace {

// No claim checks the lease; it suffices that the process does, now and then,
// if no block is sent after its refusal.
struct PollNowAndThen : SimLeaseProtocol {
  static constexpr bool kPollAtClaims = false;
};
// A process counts an attachment until the owner has shut its end.
struct CountUntilShut : SimLeaseProtocol {
  static constexpr bool kCountUntilShut = true;
  static constexpr bool kEndsSeenAtLimit = false;
};
// The cells of an attachment are assigned to another arena as soon as the
// process has detached. The owner may mistake claims there for claims on its
// own block; it then tests again.
struct GiveAtOnce : SimLeaseProtocol {
  static constexpr bool kGiveWhenShut = false;
};

struct SoundCase {
  std::string name;
  LeaseRoute route;
  LeaseExplorer explore = &ExploreLease<SimLeaseProtocol>;
};

void PrintTo(const SoundCase& c, std::ostream* out) { *out << c.name; }

class LeaseScheduleTest : public testing::TestWithParam<SoundCase> {
 protected:
  // With the columns read in either direction.
  static void Holds(int max_kills) {
    const SoundCase& c = GetParam();
    for (const bool reversed : {false, true}) {
      LeaseRoute route = c.route;
      route.reversed = reversed;
      const ExploreResult result =
          c.explore({route, max_kills, ScheduleCount(10'000)});
      EXPECT_TRUE(result.ok) << result.report;
    }
  }
};

TEST_P(LeaseScheduleTest, NeverReusesWhatIsHeldNorFailsAClaim) { Holds(0); }

TEST_P(LeaseScheduleTest, NeverReusesWhatIsHeldThoughTwoAreKilled) { Holds(2); }

// The first six are the reference model's.
INSTANTIATE_TEST_SUITE_P(
    Routes, LeaseScheduleTest,
    testing::Values(
        SoundCase{"ThereAndBack", {{0, 1, 0}}},
        SoundCase{"ThereAndOn", {{0, 1, 2}}},
        SoundCase{"Returns", {{0, 1, 2, 1}}}, SoundCase{"Queue", {{0, kQueue}}},
        SoundCase{"BackAndForth", {{0, 1, 0, 1, 0}}},
        SoundCase{"Round", {{0, 1, 2, 0}}}, SoundCase{"OneHop", {{0, 1}}},
        SoundCase{"LongReturn", {{0, 1, 2, 1, 2, 1}}},
        SoundCase{"ThreeHops", {{0, 1, 2, 3}}},
        SoundCase{"QueueAfterHop", {{0, 3, kQueue}}},
        SoundCase{"QueueBeforeHop", {{0, kQueue, 3}}},
        SoundCase{"SocketIsAWord", {{0, 1, 2}}, &ExploreLease<SocketIsAWord>}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Events, LeaseScheduleTest,
    testing::Values(
        SoundCase{"Detach", {.hops = {0, 1, 0}, .detaching = 0b11}},
        SoundCase{"DetachBoth", {.hops = {0, 1, 2}, .detaching = 0b110}},
        SoundCase{"DetachRound", {.hops = {0, 1, 2, 0}, .detaching = 0b11}},
        SoundCase{"DetachAllAttached",
                  {.hops = {0, 1, 2}, .detaching = 0b111, .attached = 0b111}},
        SoundCase{"DetachQueue", {.hops = {0, kQueue}, .detaching = 0b110}},
        SoundCase{"Limit", {.hops = {0, 1, 0}, .detaching = 0b11, .limit = 1}},
        SoundCase{"LimitUntilShut",
                  {.hops = {0, 1, 0}, .detaching = 0b11, .limit = 1},
                  &ExploreLease<CountUntilShut>},
        SoundCase{"LimitReturn",
                  {.hops = {0, 1, 2, 1}, .detaching = 0b110, .limit = 1}},
        SoundCase{"Refuse", {.hops = {0, 1, 0}, .refused = 0b10}},
        SoundCase{"RefuseBoth", {.hops = {0, 1, 2}, .refused = 0b110}},
        SoundCase{"RefuseReturn", {.hops = {0, 1, 2, 1}, .refused = 0b110}},
        SoundCase{"RefuseQueue", {.hops = {0, kQueue}, .refused = 0b110}},
        SoundCase{"RefuseLookNowAndThen",
                  {.hops = {0, 1, 2, 1}, .refused = 0b110},
                  &ExploreLease<PollNowAndThen>},
        SoundCase{"RefuseBefore",
                  {.hops = {0, 1, 0}, .refused = 0b10, .before = 0b10}},
        SoundCase{"RefuseBothBefore",
                  {.hops = {0, 1, 2}, .refused = 0b110, .before = 0b110}},
        SoundCase{"RefuseOneBefore",
                  {.hops = {0, 1, 2}, .refused = 0b110, .before = 0b10}},
        SoundCase{"RefuseReturnBefore",
                  {.hops = {0, 1, 2, 1}, .refused = 0b10, .before = 0b10}},
        SoundCase{"RefuseQueueBefore",
                  {.hops = {0, kQueue}, .refused = 0b110, .before = 0b110}},
        SoundCase{"RefuseDetach",
                  {.hops = {0, 1, 2}, .detaching = 0b11, .refused = 0b110}},
        SoundCase{"RefuseLimit",
                  {.hops = {0, 1, 2}, .refused = 0b110, .limit = 1}},
        SoundCase{"Retire", {.hops = {0, 1, 2}, .retired = true}},
        SoundCase{"RetireReturn", {.hops = {0, 1, 2, 1}, .retired = true}},
        SoundCase{"RetireQueue", {.hops = {0, kQueue}, .retired = true}},
        SoundCase{"RetireDetach",
                  {.hops = {0, 1, 2}, .detaching = 0b100, .retired = true}},
        SoundCase{"Move", {.hops = {0, 1, 2}, .moving = true}},
        SoundCase{"MoveReturn", {.hops = {0, 1, 0, 1}, .moving = true}},
        SoundCase{"MoveAtOnce",
                  {.hops = {0, 1, 0, 1}, .moving = true},
                  &ExploreLease<GiveAtOnce>},
        SoundCase{"MoveLimit",
                  {.hops = {0, 1, 0, 1}, .limit = 1, .moving = true}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon
