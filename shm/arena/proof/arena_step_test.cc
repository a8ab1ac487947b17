// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A holder killed at every machine instruction of attaching, claiming, handing
// over and releasing: the owner reclaims every block, and a third process keeps
// the bytes of its holds. With -c opt that is the shipped code;
// TENON_STEP_STRIDE=1 in the environment selects all positions, also of long
// regions.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/region.h"
#include "tenon/shm/testing/trace/single_stepper.h"
#include "tenon/shm/testing/trace/step_report.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

constexpr size_t kBlock = 4096;
constexpr size_t kQuota = 4;  // Blocks, of which the third process holds one.
// An attachment has room for many segments: clearing it is a long loop over
// private memory, whose later iterations do not differ from the first ones.
constexpr uint64_t kMaxStops = 100;
constexpr absl::Duration kWholeTest = absl::Hours(1);

// Written by the victim before it is killed, and by the third process at all
// times.
struct Board {
  std::atomic<bool> claimed{false};
  std::atomic<bool> acknowledged{false};
  std::atomic<bool> forwarded{false};
  BlockDescriptor message;      // The message for the third process to claim.
  absl::StatusCode third_said;  // The result of that claim.
};

class ArenaStepTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
    TENON_ASSERT_OK_AND_ASSIGN(
        arena_, Arena::Create(SmallArena(GetParam(), prefix_, kQuota, kBlock)));
    StartThird();
    // One-time initialisation of a process is not under test.
    TENON_ASSERT_OK_AND_ASSIGN(sent_, MakeSentBlock(*arena_, kBlock));
    TENON_ASSERT_OK_AND_ASSIGN(offer_, arena_->Offer(sent_.block));
    TENON_ASSERT_OK_AND_ASSIGN(auto attached, AttachTo(offer_));
    TENON_ASSERT_OK_AND_ASSIGN(Hold hold, attached->Claim(sent_.message));
    ASSERT_THAT(attached->Offer(sent_.message.segment), IsOk());
    hold.Reset();
    attached.reset();
    ASSERT_THAT(GetAllBack(), IsOk());
  }

  void TearDown() override {
    if (!third_.has_value()) return;
    test_.reset();  // Which ends the third process.
    EXPECT_TRUE(third_->EndsWell());
    third_.reset();
    sent_ = SentBlock();
    TENON_ASSERT_OK_AND_ASSIGN(const size_t trimmed, arena_->Trim());
    EXPECT_EQ(trimmed, kQuota * kBlock);
    arena_.reset();
    EXPECT_TRUE(ExpectSame(before_, TakeCensus({.shm_prefix = prefix_})));
  }

  // --- The third process. ---

  void StartThird() {
    TENON_ASSERT_OK_AND_ASSIGN(SentBlock thirds,
                               MakeSentBlock(*arena_, kBlock));
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer,
                               arena_->Offer(thirds.block));
    TENON_ASSERT_OK_AND_ASSIGN(
        std::vector<Peer> peers,
        MakePeers({"test", "third"}, PeerMode::kProcesses,
                  Deadline::After(kWholeTest)));
    TENON_ASSERT_OK_AND_ASSIGN(
        third_, ForkedChild::Fork({.name = "third", .watchdog = kWholeTest},
                                  [&](const Reporter& reporter) {
                                    Peer self = std::move(peers[1]);
                                    peers.clear();
                                    self.set_reporter(reporter);
                                    PlayThird(self, offer, thirds.message);
                                  }));
    test_.emplace(std::move(peers[0]));
    ASSERT_THAT(test_->Await("third", "ready"), IsOk());
  }

  void PlayThird(Peer& self, const ArenaOffer& offer,
                 const BlockDescriptor& message) {
    TENON_ASSERT_OK_AND_ASSIGN(auto attached, AttachTo(offer));
    TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached->Claim(message));
    self.Step("ready");
    Hold forwarded;
    while (self.Await("test", "next").ok()) {
      EXPECT_TRUE(HasPattern(hold.bytes(), message));
      if (board_->message == BlockDescriptor()) {
        EXPECT_TRUE(HasPattern(forwarded.bytes(), forwarded.descriptor()));
        forwarded.Reset();
        board_->third_said = absl::StatusCode::kOk;
      } else {
        auto claimed = attached->Claim(board_->message);
        board_->third_said = claimed.status().code();
        if (claimed.ok()) forwarded = *std::move(claimed);
        EXPECT_TRUE(HasPattern(forwarded.bytes(), board_->message));
      }
      self.Step("done");
    }
  }

  // The third process checks its bytes, and claims `message`; if that is empty,
  // it releases its earlier claims of this kind. Returns the code of the claim.
  absl::StatusOr<absl::StatusCode> AskThird(const BlockDescriptor& message) {
    board_->message = message;
    test_->Step("next");
    TENON_RETURN_IF_ERROR(test_->Await("third", "done"));
    TENON_RETURN_IF_ERROR(Expect(third_->report().failures.empty(),
                                 "the third process found its bytes changed"));
    return board_->third_said;
  }

  // --- The owner, which is the test itself. ---

  // Allocates all blocks of the quota except `held`, overwrites them, and drops
  // them.
  absl::Status TakeWholeQuota(size_t held) {
    std::vector<Block> blocks;
    for (size_t i = held; i < kQuota; ++i) {
      TENON_ASSIGN_OR_RETURN(Block block, arena_->TryAllocate(kBlock));
      std::fill(block.bytes().begin(), block.bytes().end(), std::byte{0xEE});
      blocks.push_back(std::move(block));
    }
    return Expect(arena_->TryAllocate(kBlock).status().code() ==
                      absl::StatusCode::kResourceExhausted,
                  "a block was handed out that somebody holds");
  }

  // After the victim's end: reclaims all blocks except those of the third
  // process.
  absl::Status GetAllBack() {
    sent_.block.Reset();
    TENON_RETURN_IF_ERROR(TakeWholeQuota(1));
    TENON_RETURN_IF_ERROR(AskThird({}).status());
    // Removes dead processes.
    TENON_RETURN_IF_ERROR(arena_->Holders().status());
    return Expect(arena_->Use().attached == 1,
                  "dead processes are still attached");
  }

  StepScenario Scenario() {
    StepScenario scenario;
    scenario.name =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    scenario.prepare = [this] {
      board_.Reset();
      TENON_ASSERT_OK_AND_ASSIGN(sent_, MakeSentBlock(*arena_, kBlock));
      TENON_ASSERT_OK_AND_ASSIGN(offer_, arena_->Offer(sent_.block));
    };
    scenario.check = [this](const StepPosition& position) -> absl::Status {
      TENON_RETURN_IF_ERROR(
          Expect(position.victim->HasEnded(), "the victim lives"));
      return GetAllBack();
    };
    return scenario;
  }

  StepScenario AttachScenario() {
    StepScenario scenario = Scenario();
    scenario.max_stops = kMaxStops;
    scenario.victim = [this](const Reporter&) {
      BeginRegion();
      const auto attached = AttachTo(offer_);
      EndRegion();
      EXPECT_THAT(attached, IsOk());
    };
    return scenario;
  }

  void Run(const StepScenario& scenario) {
    TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                               KillAtEveryInstruction(scenario));
    std::cout << report.ToString();
    EXPECT_TRUE(report.failures.empty()) << report.ToString();
    EXPECT_FALSE(report.given_up);
    EXPECT_GE(report.positions, 10u);
    // Without malloc(), whose path depends on earlier calls, the path is the
    // same each time.
    const bool steady = report.instructions < 500;  // Claim and release.
    EXPECT_LE(report.missed, steady ? 0 : report.positions / 20);
  }

  const std::string prefix_ = UniqueShmPrefix();
  SharedObject<Board> board_;
  const Census before_ = TakeCensus({.shm_prefix = prefix_});
  std::shared_ptr<Arena> arena_;
  SentBlock sent_;
  ArenaOffer offer_;
  std::optional<Peer> test_;
  std::optional<ForkedChild> third_;
};

TEST_P(ArenaStepTest, Attach) {
  StepScenario scenario = AttachScenario();
  scenario.stride = NumberFromEnvironment("TENON_STEP_STRIDE", 61);
  scenario.around_syscalls = true;
  scenario.budget = absl::Hours(1);
  Run(scenario);
}

TEST_P(ArenaStepTest, Detach) {
  StepScenario scenario = Scenario();
  scenario.stride = NumberFromEnvironment("TENON_STEP_STRIDE", 7);
  scenario.max_stops = kMaxStops;
  scenario.victim = [this](const Reporter&) {
    auto attached = AttachTo(offer_).value();
    attached->Claim(sent_.message).value().Reset();
    BeginRegion();
    attached.reset();
    EndRegion();
  };
  Run(scenario);
}

TEST_P(ArenaStepTest, Claim) {
  StepScenario scenario = Scenario();
  scenario.victim = [this](const Reporter&) {
    const auto attached = AttachTo(offer_).value();
    BeginRegion();
    const auto hold = attached->Claim(sent_.message);
    EndRegion();
    EXPECT_THAT(hold, IsOk());
  };
  Run(scenario);
}

TEST_P(ArenaStepTest, Release) {
  StepScenario scenario = Scenario();
  scenario.victim = [this](const Reporter&) {
    const auto attached = AttachTo(offer_).value();
    Hold hold = attached->Claim(sent_.message).value();
    BeginRegion();
    hold.Reset();
    EndRegion();
  };
  Run(scenario);
}

// Claims, acknowledges, forwards to the third process and releases. The owner
// keeps its block until the acknowledgement, as required.
TEST_P(ArenaStepTest, HandOver) {
  StepScenario scenario = Scenario();
  scenario.victim = [this](const Reporter&) {
    const auto attached = AttachTo(offer_).value();
    BeginRegion();
    auto hold = attached->Claim(sent_.message);
    board_->acknowledged.store(true);
    const auto offer = attached->Offer(sent_.message.segment);
    board_->forwarded.store(true);
    hold->Reset();
    EndRegion();
    EXPECT_THAT(hold, IsOk());
    EXPECT_THAT(offer, IsOk());
  };
  scenario.check = [this](const StepPosition& position) -> absl::Status {
    if (!board_->acknowledged.load()) {
      TENON_RETURN_IF_ERROR(
          Expect(HasPattern(sent_.block.bytes(), sent_.message),
                 "the owner's own block was given away"));
      return GetAllBack();
    }
    sent_.block.Reset();
    if (!board_->forwarded.load()) return GetAllBack();
    // Alternates between a claim of the third process before the owner's test,
    // and after it.
    if (position.index % 2 == 1) {
      TENON_RETURN_IF_ERROR(TakeWholeQuota(1));
      TENON_ASSIGN_OR_RETURN(const absl::StatusCode said,
                             AskThird(sent_.message));
      TENON_RETURN_IF_ERROR(Expect(said == absl::StatusCode::kDataLoss,
                                   "what was reused could be claimed"));
    } else {
      TENON_ASSIGN_OR_RETURN(const absl::StatusCode said,
                             AskThird(sent_.message));
      TENON_RETURN_IF_ERROR(Expect(said == absl::StatusCode::kOk,
                                   "what was forwarded cannot be claimed"));
      TENON_RETURN_IF_ERROR(TakeWholeQuota(2));
      TENON_RETURN_IF_ERROR(AskThird({}).status());  // It releases.
    }
    return GetAllBack();
  };
  Run(scenario);
}

// While the victim is stopped, and may continue at any time, the owner releases
// the block and tries to reuse it. Either it succeeds, and the claim in
// progress fails; or it does not, and the claim succeeds.
TEST_P(ArenaStepTest, OwnerAgainstAClaimThatStandsStill) {
  StepScenario scenario = Scenario();
  scenario.fate = StepFate::kPause;
  bool taken = false;
  uint64_t times_taken = 0;
  scenario.victim = [this](const Reporter&) {
    const auto attached = AttachTo(offer_).value();
    BeginRegion();
    const auto hold = attached->Claim(sent_.message);
    EndRegion();
    board_->claimed.store(hold.ok());
    if (hold.ok()) {
      EXPECT_TRUE(HasPattern(hold->bytes(), sent_.message));
    } else {
      EXPECT_THAT(hold, StatusIs(absl::StatusCode::kDataLoss));
    }
  };
  scenario.check = [&](const StepPosition& position) -> absl::Status {
    if (position.moment == StepMoment::kPaused) {
      sent_.block.Reset();
      taken = TakeWholeQuota(1).ok();
      times_taken += taken;
      return taken ? absl::OkStatus() : TakeWholeQuota(2);
    }
    const bool expected = position.address == 0 || !taken;
    TENON_RETURN_IF_ERROR(
        Expect(board_->claimed.load() == expected,
               taken ? "claimed, and yet reused" : "refused, and not reused"));
    return GetAllBack();
  };
  Run(scenario);
  EXPECT_GT(times_taken, 0u);
}

TEST_P(ArenaStepTest, OwnerAgainstAReleaseThatStandsStill) {
  StepScenario scenario = Scenario();
  scenario.fate = StepFate::kPause;
  uint64_t taken = 0, kept = 0;
  scenario.victim = [this](const Reporter&) {
    const auto attached = AttachTo(offer_).value();
    Hold hold = attached->Claim(sent_.message).value();
    board_->claimed.store(true);
    BeginRegion();
    hold.Reset();
    EndRegion();
  };
  scenario.check = [&](const StepPosition& position) -> absl::Status {
    if (position.moment == StepMoment::kPaused) {
      sent_.block.Reset();
      const bool free = TakeWholeQuota(1).ok();
      ++(free ? taken : kept);
      // Once it is released it stays so.
      TENON_RETURN_IF_ERROR(
          Expect(kept == 0 || taken == 0 || free, "released, and held again"));
      return free ? absl::OkStatus() : TakeWholeQuota(2);
    }
    return GetAllBack();
  };
  Run(scenario);
  EXPECT_GT(kept, 0u);
  EXPECT_GT(taken, 0u);
}

INSTANTIATE_TEST_SUITE_P(Strategies, ArenaStepTest,
                         testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                         [](const auto& strategy) {
                           return strategy.param == SharingStrategy::kFileSystem
                                      ? "FileSystem"
                                      : "FileDescriptor";
                         });

}  // namespace
}  // namespace tenon
