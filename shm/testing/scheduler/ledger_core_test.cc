// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The core of the lease ledger, for one block, as code on weak memory: claim,
// acknowledge, forward, let go, release, and the owner's take-back, with kills.
// Attachment and queues are not in it.
//
// The owner sends the block along a route of processes. Each claims it in its
// own cell {claims:32, held:32}, checks the generation, acknowledges, forwards,
// lets go once the next has acknowledged (or is dead), and releases. The owner
// reads all cells in two passes; if they are the same in both and hold nothing,
// it bumps the generation, does the same again, and reuses the block.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/atomics.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_var.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kMaxProcesses = 4;  // Number 0 is not used.
constexpr size_t kMaxHops = 5;
constexpr uint64_t kHeld = 1;
constexpr uint64_t kClaim = uint64_t{1} << 32;

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kAcqRel = std::memory_order_acq_rel;
constexpr auto kSeqCst = std::memory_order_seq_cst;

// The defaults are right. Each of them is needed.
struct Variant {
  bool acknowledge_first = false;  // Then claim.
  bool drop_early = false;         // Let go before the acknowledgement.
  bool count_claims = true;
  int passes = 2;
  bool check_generation = true;
  std::memory_order claim = kSeqCst;
  std::memory_order load_generation = kSeqCst;
  std::memory_order store_generation = kSeqCst;
  std::memory_order second_test = kSeqCst;
  std::memory_order first_test = kAcquire;
  std::memory_order release = kRelease;
  std::memory_order acknowledge = kRelease;
};

using Route = std::vector<int>;  // Processes, in the order of the hops.

class Block {
 public:
  Block(Schedule& schedule, const Route& route, const Variant& variant)
      : schedule_(schedule), route_(route), variant_(variant) {
    schedule.Name(generation_, "gen");
    for (size_t h = 0; h < route.size(); ++h) {
      schedule.Name(sent_[h], "sent", static_cast<int>(h));
      schedule.Name(acknowledged_[h], "ack", static_cast<int>(h));
    }
    for (const int p : route) schedule.Name(cells_[p], "cell", p);
  }

  void AddThreads() {
    static constexpr const char* kNames[kMaxProcesses] = {
        "", "process 1", "process 2", "process 3"};
    schedule_.AddThread("owner", [this] { Own(); });
    for (size_t p = 1; p < kMaxProcesses; ++p) {
      if (!OnRoute(p)) continue;
      thread_[p] = schedule_.AddKillableThread(
          kNames[p], [this, p] { Receive(static_cast<int>(p)); });
    }
  }

 private:
  using Cell = SharedWord<uint64_t>;

  bool OnRoute(size_t p) const {
    for (const int on_route : route_) {
      if (on_route == static_cast<int>(p)) return true;
    }
    return false;
  }

  // --- A process of the route. ---

  void Receive(int p) {
    for (size_t hop = 0; hop < route_.size(); ++hop) {
      if (route_[hop] != p) continue;
      if (!WaitForMessage(hop)) return;
      if (!ClaimAndAcknowledge(p, hop)) return;
      TENON_SIM_CHECK(bytes_ == 1);
      if (hop + 1 < route_.size()) Send(hop + 1);
      has_[p] = false;
      SimAtomics::FetchSub(cells_[p], kHeld, variant_.release);
    }
  }

  // False if the sender is gone and has not sent.
  bool WaitForMessage(size_t hop) {
    while (SimAtomics::Load(sent_[hop], kAcquire) == 0) {
      if (hop > 0 && schedule_.HasEnded(thread_[route_[hop - 1]])) {
        return SimAtomics::Load(sent_[hop], kAcquire) != 0;
      }
      SimAtomics::Pause();
    }
    return true;
  }

  bool ClaimAndAcknowledge(int p, size_t hop) {
    const uint64_t claim = variant_.count_claims ? kClaim + kHeld : kHeld;
    if (variant_.acknowledge_first) Acknowledge(hop);
    SimAtomics::FetchAdd(cells_[p], claim, variant_.claim);
    const uint64_t now =
        SimAtomics::Load(generation_, variant_.load_generation);
    if (variant_.check_generation && now != 0) {
      const bool failed_with_all_alive = !schedule_.anyone_was_killed();
      TENON_SIM_CHECK(!failed_with_all_alive);
      SimAtomics::FetchSub(cells_[p], kHeld, variant_.release);
      return false;
    }
    has_[p] = true;
    if (!variant_.acknowledge_first) Acknowledge(hop);
    return true;
  }

  void Acknowledge(size_t hop) {
    SimAtomics::Store(acknowledged_[hop], 1, variant_.acknowledge);
  }

  // Returns when the sender may let go.
  void Send(size_t hop) {
    SimAtomics::Store(sent_[hop], 1, kRelease);
    if (variant_.drop_early) return;
    while (SimAtomics::Load(acknowledged_[hop], kAcquire) == 0 &&
           !schedule_.HasEnded(thread_[route_[hop]])) {
      SimAtomics::Pause();
    }
  }

  // --- The owner. ---

  void Own() {
    bytes_ = 1;
    Send(0);
    while (!AllFree(variant_.first_test)) SimAtomics::Pause();
    SimAtomics::Store(generation_, 1, variant_.store_generation);
    while (!AllFree(variant_.second_test)) SimAtomics::Pause();
    for (size_t p = 1; p < kMaxProcesses; ++p) {
      const bool reused_while_held =
          has_[p] && !schedule_.was_killed(thread_[p]);
      TENON_SIM_CHECK(!reused_while_held);
    }
    bytes_ = 2;
  }

  // From the last process to the first, so that a block may run the other way.
  bool AllFree(std::memory_order order) {
    std::array<uint64_t, kMaxProcesses> seen = {};
    for (int pass = 0; pass < variant_.passes; ++pass) {
      for (size_t p = kMaxProcesses - 1; p > 0; --p) {
        if (!OnRoute(p) || buried_[p]) continue;
        const uint64_t cell = SimAtomics::Load(cells_[p], order);
        if (cell % kClaim != 0) {
          buried_[p] = schedule_.HasEnded(thread_[p]);
          return false;
        }
        if (pass > 0 && cell != seen[p]) return false;
        seen[p] = cell;
      }
    }
    return true;
  }

  Schedule& schedule_;
  const Route& route_;
  const Variant& variant_;
  Cell generation_{0};
  std::array<Cell, kMaxProcesses> cells_{Cell(0), Cell(0), Cell(0), Cell(0)};
  std::array<Cell, kMaxHops> sent_{Cell(0), Cell(0), Cell(0), Cell(0), Cell(0)};
  std::array<Cell, kMaxHops> acknowledged_{Cell(0), Cell(0), Cell(0), Cell(0),
                                           Cell(0)};
  SimVar<uint64_t> bytes_{"bytes"};
  std::array<int, kMaxProcesses> thread_ = {};
  // Beside the simulation, for the checks.
  std::array<bool, kMaxProcesses> has_ = {};     // A good claim.
  std::array<bool, kMaxProcesses> buried_ = {};  // The owner saw its end.
};

ExploreResult ExploreLedger(const Route& route, const Variant& variant,
                            int max_kills, uint64_t schedules) {
  return Explore({.schedules = schedules, .schedule = {.max_kills = max_kills}},
                 [&](Schedule& s) {
                   Block block(s, route, variant);
                   block.AddThreads();
                   s.Run();
                 });
}

struct SoundCase {
  std::string name;
  Route route;
  int max_kills;
};

void PrintTo(const SoundCase& c, std::ostream* out) { *out << c.name; }

class LedgerCoreTest : public testing::TestWithParam<SoundCase> {};

TEST_P(LedgerCoreTest, NeverReusesWhatIsHeldNorLosesWhatNobodyKilled) {
  const SoundCase& c = GetParam();
  const ExploreResult result =
      ExploreLedger(c.route, {}, c.max_kills, ScheduleCount(200'000));
  EXPECT_TRUE(result.ok) << result.report;
}

INSTANTIATE_TEST_SUITE_P(
    All, LedgerCoreTest,
    testing::Values(SoundCase{"OneHop", {1}, 0},
                    SoundCase{"OneHopKill", {1}, 1},
                    SoundCase{"TwoHops", {1, 2}, 0},
                    SoundCase{"TwoHopsKill", {1, 2}, 1},
                    SoundCase{"TwoHopsTwoKills", {1, 2}, 2},
                    SoundCase{"Returns", {1, 2, 1}, 0},
                    SoundCase{"ReturnsKill", {1, 2, 1}, 1},
                    SoundCase{"BackAndForth", {1, 2, 1, 2, 1}, 0},
                    SoundCase{"ThreeHops", {1, 2, 3}, 0},
                    SoundCase{"ThreeHopsTwoKills", {1, 2, 3}, 2}),
    [](const auto& test) { return test.param.name; });

// What a wrong variant may be caught at.
enum class Harm {
  kClaimFails,  // Though nobody was killed.
  kReuse,       // Of a block that is held, or was read without order.
};

struct WrongCase {
  std::string name;
  Variant variant;
  Harm harm;
  Route route = {1, 2};
  int max_kills = 0;
};

void PrintTo(const WrongCase& c, std::ostream* out) { *out << c.name; }

class WrongLedgerCoreTest : public testing::TestWithParam<WrongCase> {};

TEST_P(WrongLedgerCoreTest, IsCaught) {
  const WrongCase& c = GetParam();
  const ExploreResult result =
      ExploreLedger(c.route, c.variant, c.max_kills, 1'000'000);
  ASSERT_FALSE(result.ok);
  if (c.harm == Harm::kClaimFails) {
    EXPECT_THAT(result.failure, HasSubstr("!failed_with_all_alive"));
  } else {
    EXPECT_THAT(result.failure, AnyOf(HasSubstr("!reused_while_held"),
                                      StartsWith("data race: ")));
  }
  RecordProperty("schedules", static_cast<int>(result.schedules));
}

INSTANTIATE_TEST_SUITE_P(
    Steps, WrongLedgerCoreTest,
    testing::Values(
        WrongCase{
            "AcknowledgeFirst", {.acknowledge_first = true}, Harm::kClaimFails},
        WrongCase{"DropEarly", {.drop_early = true}, Harm::kClaimFails},
        WrongCase{"OnePass", {.passes = 1}, Harm::kClaimFails, {1, 2, 3}},
        WrongCase{"ClaimsNotCounted",
                  {.count_claims = false},
                  Harm::kClaimFails,
                  {1, 2, 1, 2, 1}},
        WrongCase{"GenerationNotChecked",
                  {.check_generation = false},
                  Harm::kReuse,
                  {1, 2},
                  1}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Orders, WrongLedgerCoreTest,
    testing::Values(
        WrongCase{"ClaimAcqRel", {.claim = kAcqRel}, Harm::kReuse, {1, 2}, 1},
        WrongCase{"LoadGenerationAcquire",
                  {.load_generation = kAcquire},
                  Harm::kReuse,
                  {1, 2},
                  1},
        WrongCase{"StoreGenerationRelease",
                  {.store_generation = kRelease},
                  Harm::kReuse,
                  {1, 2},
                  1},
        WrongCase{"SecondTestAcquire",
                  {.second_test = kAcquire},
                  Harm::kReuse,
                  {1, 2},
                  1},
        WrongCase{"FirstTestRelaxed",
                  {.first_test = kRelaxed},
                  Harm::kClaimFails,
                  {1, 2, 3}},
        WrongCase{"ReleaseRelaxed", {.release = kRelaxed}, Harm::kReuse},
        WrongCase{"AcknowledgeRelaxed",
                  {.acknowledge = kRelaxed},
                  Harm::kClaimFails}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon
