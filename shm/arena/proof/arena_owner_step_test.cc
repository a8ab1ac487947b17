// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The owner of an arena killed at every machine instruction of reclaiming,
// growing and trimming: a holder of a block keeps its bytes, and continues to
// claim and forward; after the last holder nothing is left. TENON_STEP_STRIDE=1
// in the environment selects all positions; the default is a part of them.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
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
constexpr size_t kOtherBlock = 8192;
// Later iterations of long loops are skipped.
constexpr uint64_t kMaxStops = 100;

// The owner's messages in OfferBoard::blocks.
enum Sent {
  kHeld,      // Claimed; the owner has released it.
  kReleased,  // Claimed and released; the owner has released it.
  kKept,      // Not claimed yet; the owner keeps it.
};

struct Boards {
  OfferBoard holder;
  OfferBoard test;  // The holder's forwarded messages.
};

// The owner's state before its region.
struct Owner {
  std::shared_ptr<Arena> arena;
  SentBlock kept;
};

class ArenaOwnerStepTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
    // One-time initialisation of a process is not under test.
    TENON_ASSERT_OK_AND_ASSIGN(auto arena, Arena::Create(Options()));
    TENON_ASSERT_OK_AND_ASSIGN(SentBlock sent, MakeSentBlock(*arena, kBlock));
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer,
                               arena->Offer(sent.block));
    ASSERT_THAT(AttachTo(offer), IsOk());
    sent.block.Reset();
    ASSERT_THAT(arena->TryAllocate(kBlock), IsOk());
    ASSERT_THAT(arena->Trim(), IsOk());
  }

  ArenaOptions Options() const {
    ArenaOptions options = SmallArena(GetParam(), prefix_, 3, kBlock);
    options.quota_bytes = 16 * kBlock;
    return options;
  }

  void Prepare() {
    boards_.Reset();
    TENON_ASSERT_OK_AND_ASSIGN(
        peers_, MakePeers({"test", "owner", "holder"}, PeerMode::kProcesses,
                          Deadline::After(absl::Seconds(15))));
    TENON_ASSERT_OK_AND_ASSIGN(
        holder_,
        ForkedChild::Fork({.name = "holder"}, [&](const Reporter& reporter) {
          Peer self = std::move(peers_[2]);
          peers_.clear();
          self.set_reporter(reporter);
          PlayHolder(self);
        }));
    peers_.pop_back();
  }

  // Returns when the owner is about to reclaim.
  void PrepareOwner(Peer& self, Owner& owner) {
    TENON_ASSERT_OK_AND_ASSIGN(owner.arena, Arena::Create(Options()));
    Arena& arena = *owner.arena;
    {
      TENON_ASSERT_OK_AND_ASSIGN(SentBlock held, MakeSentBlock(arena, kBlock));
      TENON_ASSERT_OK_AND_ASSIGN(SentBlock released,
                                 MakeSentBlock(arena, kBlock));
      TENON_ASSERT_OK_AND_ASSIGN(owner.kept, MakeSentBlock(arena, kBlock));
      // An idle segment, which can be trimmed.
      ASSERT_THAT(arena.TryAllocate(kOtherBlock), IsOk());
      boards_->holder.blocks[kHeld] = held.message;
      boards_->holder.blocks[kReleased] = released.message;
      boards_->holder.blocks[kKept] = owner.kept.message;
      TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer,
                                 arena.Offer(held.block));
      ASSERT_THAT(GiveOffer(self, "holder", boards_->holder, offer), IsOk());
      ASSERT_THAT(self.Await("holder", "ready"), IsOk());
    }
  }

  void PlayHolder(Peer& self) {
    const BlockDescriptor* sent = boards_->holder.blocks;
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto attached,
        TakeOfferAndAttach(self, "owner", boards_->holder));
    TENON_ASSERT_OK_AND_ASSIGN(const Hold held, attached->Claim(sent[kHeld]));
    ASSERT_THAT(attached->Claim(sent[kReleased]), IsOk());
    self.Step("ready");
    ASSERT_THAT(self.Await("test", "killed"), IsOk());
    EXPECT_TRUE(HasPattern(held.bytes(), sent[kHeld]));
    // It was sent, and its owner had not released it.
    TENON_ASSERT_OK_AND_ASSIGN(const Hold kept, attached->Claim(sent[kKept]));
    EXPECT_TRUE(HasPattern(kept.bytes(), sent[kKept]));
    boards_->test.blocks[0] = sent[kHeld];
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer,
                               attached->Offer(sent[kHeld].segment));
    ASSERT_THAT(GiveOffer(self, "test", boards_->test, offer), IsOk());
    ASSERT_THAT(self.Await("test", "claimed"), IsOk());
  }

  absl::Status Check(const StepPosition&) {
    Peer test = std::move(peers_[0]);
    peers_.clear();
    test.Step("killed");
    // The holder forwards to this process, under kFileSystem by name.
    const absl::Status claimed = [&]() -> absl::Status {
      TENON_ASSIGN_OR_RETURN(const auto attached,
                             TakeOfferAndAttach(test, "holder", boards_->test));
      TENON_ASSIGN_OR_RETURN(const Hold hold,
                             attached->Claim(boards_->test.blocks[0]));
      test.Step("claimed");
      const testing::AssertionResult well = holder_->EndsWell();
      TENON_RETURN_IF_ERROR(Expect(bool{well}, well.message()));
      return Expect(HasPattern(hold.bytes(), boards_->test.blocks[0]),
                    "what was forwarded has other bytes");
    }();
    holder_.reset();
    TENON_RETURN_IF_ERROR(claimed);
    return RemoveNames();
  }

  // Names of segments that a killed owner leaves are documented, under
  // kFileSystem: at most one for each segment that it had or was creating.
  absl::Status RemoveNames() {
    TENON_ASSIGN_OR_RETURN(const auto names, ListShmNames(prefix_));
    const size_t most = GetParam() == SharingStrategy::kFileSystem ? 3 : 0;
    TENON_RETURN_IF_ERROR(Expect(names.size() <= most, "names were left"));
    names_left_ += names.size();
    for (const std::string& name : names) {
      TENON_RETURN_IF_ERROR(RemoveShmName(name));
    }
    return absl::OkStatus();
  }

  void Run(const std::function<void(Arena&)>& step, uint64_t stride) {
    const Census before = TakeCensus({.shm_prefix = prefix_});
    StepScenario scenario;
    scenario.name =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    scenario.prepare = [this] { Prepare(); };
    scenario.victim = [&](const Reporter& reporter) {
      Peer self = std::move(peers_[1]);
      peers_.clear();
      self.set_reporter(reporter);
      Owner owner;
      PrepareOwner(self, owner);
      BeginRegion();
      step(*owner.arena);
      EndRegion();
      // As if it was killed just after the region.
      _exit(0);
    };
    scenario.check = [this](const StepPosition& p) { return Check(p); };
    scenario.shm_prefix = prefix_;
    scenario.stride = NumberFromEnvironment("TENON_STEP_STRIDE", stride);
    scenario.budget = absl::Hours(1);
    scenario.max_stops = kMaxStops;
    TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                               KillAtEveryInstruction(scenario));
    std::cout << report.ToString() << "names left: " << names_left_ << "\n";
    EXPECT_TRUE(report.failures.empty()) << report.ToString();
    EXPECT_FALSE(report.given_up);
    EXPECT_GE(report.positions, 10u);
    // Some are behind the end of a region in which malloc() took another path.
    EXPECT_LE(report.missed, report.positions / 20);
    EXPECT_TRUE(ExpectSame(before, TakeCensus({.shm_prefix = prefix_})));
  }

  const std::string prefix_ = UniqueShmPrefix();
  SharedObject<Boards> boards_;
  std::vector<Peer> peers_;
  std::optional<ForkedChild> holder_;
  size_t names_left_ = 0;
};

TEST_P(ArenaOwnerStepTest, TakesBack) {
  Run(
      [](Arena& arena) {
        const auto block = arena.TryAllocate(kBlock);
        EXPECT_TRUE(block.ok());
      },
      23);
}

TEST_P(ArenaOwnerStepTest, Grows) {
  Run(
      [](Arena& arena) {
        const auto block = arena.TryAllocate(4 * kBlock);
        EXPECT_TRUE(block.ok());
      },
      47);
}

TEST_P(ArenaOwnerStepTest, Trims) {
  Run(
      [](Arena& arena) {
        const auto bytes = arena.Trim();
        EXPECT_TRUE(bytes.ok() && *bytes > 0);
      },
      47);
}

INSTANTIATE_TEST_SUITE_P(Strategies, ArenaOwnerStepTest,
                         testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                         [](const auto& strategy) {
                           return strategy.param == SharingStrategy::kFileSystem
                                      ? "FileSystem"
                                      : "FileDescriptor";
                         });

}  // namespace
}  // namespace tenon
