// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// An owner, a holder, a forwarder and a third process, killed and stopped at
// every named point of ledger and arena.

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;

constexpr size_t kBlock = 4096;
constexpr size_t kQuota = 4;

// An offer for each attaching process; the first of its blocks is the one to
// claim.
struct Boards {
  OfferBoard holder;
  OfferBoard forwarder;
  OfferBoard third;
};

auto MayBeDead() {
  return AnyOf(IsOk(), StatusIs(absl::StatusCode::kUnavailable));
}

class World {
 public:
  World(SharingStrategy strategy, const std::string& prefix)
      : strategy_(strategy), prefix_(prefix) {}

  void Reset() { boards_.Reset(); }

  void Own(Peer& self) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto arena,
        CreateArena(SmallArena(strategy_, prefix_, kQuota, kBlock)));
    TENON_ASSERT_OK_AND_ASSIGN(SentBlock first, MakeSentBlock(*arena, kBlock));
    TENON_ASSERT_OK_AND_ASSIGN(SentBlock second, MakeSentBlock(*arena, kBlock));
    Send(self, "holder", boards_->holder, *arena, first);
    Send(self, "forwarder", boards_->forwarder, *arena, second);
    // Kept until they have been claimed.
    self.Await("holder", "claimed").IgnoreError();
    self.Await("forwarder", "claimed").IgnoreError();
    first.block.Reset();
    second.block.Reset();
    Overwrite(*arena);
    self.Step("let go");
    self.Await("holder", "released").IgnoreError();
    self.Await("forwarder", "released").IgnoreError();
    self.Await("third", "released").IgnoreError();
    // All have released or died: every block is reclaimed.
    {
      std::vector<Block> all;
      for (size_t i = 0; i < kQuota; ++i) {
        TENON_ASSERT_OK_AND_ASSIGN(
            Block block,
            arena->Allocate(kBlock, Deadline::After(absl::Seconds(5))));
        all.push_back(std::move(block));
      }
    }
    EXPECT_THAT(arena->Trim(), IsOkAndHolds(kQuota * kBlock));
  }

  void Hold(Peer& self) {
    auto attached = Attach(self, "owner", boards_->holder);
    if (attached == nullptr) return;
    auto hold = attached->Claim(boards_->holder.blocks[0]);
    // The owner keeps its block, or is dead and reclaims nothing.
    ASSERT_THAT(hold, IsOk());
    EXPECT_TRUE(HasPattern(hold->bytes(), hold->descriptor()));
    self.Step("claimed");
    self.Await("owner", "let go").IgnoreError();
    self.Await("third", "done").IgnoreError();
    EXPECT_TRUE(HasPattern(hold->bytes(), hold->descriptor()));
    hold->Reset();
    attached.reset();
    self.Step("released");
  }

  void Forward(Peer& self) {
    const auto attached = Attach(self, "owner", boards_->forwarder);
    if (attached == nullptr) return;
    auto hold = attached->Claim(boards_->forwarder.blocks[0]);
    ASSERT_THAT(hold, IsOk());
    self.Step("claimed");
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer,
                               attached->Offer(hold->descriptor().segment));
    boards_->third.blocks[0] = hold->descriptor();
    EXPECT_THAT(GiveOffer(self, "third", boards_->third, offer), MayBeDead());
    self.Await("third", "claimed").IgnoreError();
    EXPECT_TRUE(HasPattern(hold->bytes(), hold->descriptor()));
    hold->Reset();
    self.Step("released");
  }

  void PlayThird(Peer& self) {
    const auto attached = Attach(self, "forwarder", boards_->third);
    if (attached == nullptr) return;
    auto hold = attached->Claim(boards_->third.blocks[0]);
    self.Step("claimed");
    if (!hold.ok()) {
      // Only if the forwarder was killed before.
      EXPECT_THAT(hold, StatusIs(absl::StatusCode::kDataLoss));
      EXPECT_THAT(self.Await("forwarder", "released"),
                  StatusIs(absl::StatusCode::kUnavailable));
      self.Note("what a killed process forwarded was lost");
      return;
    }
    self.Await("owner", "let go").IgnoreError();
    EXPECT_TRUE(HasPattern(hold->bytes(), hold->descriptor()));
    self.Step("done");
    hold->Reset();
    self.Step("released");
  }

  // A killed owner under kFileSystem leaves the name of a segment, which is
  // documented; no other process leaves anything.
  void Check(const Reporter& reporter, const std::vector<KillOrder>& fired) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto names, ListShmNames(prefix_));
    bool owner_killed = false;
    for (const KillOrder& order : fired) owner_killed |= order.role == "owner";
    if (!owner_killed || strategy_ != SharingStrategy::kFileSystem) {
      EXPECT_THAT(names, IsEmpty());
    }
    EXPECT_LE(names.size(), 1u);
    for (const std::string& name : names) {
      reporter.Note("the killed owner left the name of a segment");
      EXPECT_THAT(RemoveShmName(name), IsOk());
    }
  }

 private:
  static void Send(Peer& self, absl::string_view other, OfferBoard& board,
                   Arena& arena, const SentBlock& sent) {
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, arena.Offer(sent.block));
    board.blocks[0] = sent.message;
    EXPECT_THAT(GiveOffer(self, other, board, offer), MayBeDead());
  }

  // Null if the offering process was killed before.
  std::shared_ptr<AttachedArena> Attach(Peer& self, absl::string_view from,
                                        const OfferBoard& board) {
    auto attached = TakeOfferAndAttach(self, from, board);
    if (attached.ok()) return *attached;
    // The arena does not refuse.
    EXPECT_TRUE(absl::IsUnavailable(attached.status())) << attached.status();
    EXPECT_THAT(std::string(attached.status().message()),
                testing::Not(testing::HasSubstr("the owner of the arena")));
    // A segment is opened by name: not after its owner's orderly end, but that
    // waits for all.
    return nullptr;
  }

  // Held blocks must not be among those that can be allocated.
  static void Overwrite(Arena& arena) {
    std::vector<Block> blocks;
    for (size_t i = 0; i < kQuota; ++i) {
      auto block = arena.TryAllocate(kBlock);
      if (!block.ok()) break;
      std::fill(block->bytes().begin(), block->bytes().end(), std::byte{0xEE});
      blocks.push_back(*std::move(block));
    }
  }

  const SharingStrategy strategy_;
  const std::string prefix_;
  SharedObject<Boards> boards_;
};

using Param = std::tuple<SharingStrategy, KillMethod>;

class ArenaKillTest : public testing::TestWithParam<Param> {
 protected:
  void Run(const std::string& points, size_t victims) {
    const auto [strategy, method] = GetParam();
    const std::string prefix = UniqueShmPrefix();
    World world(strategy, prefix);
    KillScenario scenario;
    scenario.name = "arena";
    scenario.method = method;
    scenario.points = points;
    scenario.victims = victims;
    scenario.shm_prefix = prefix;
    scenario.prepare = [&] { world.Reset(); };
    scenario.roles = {{"owner", [&](Peer& self) { world.Own(self); }},
                      {"holder", [&](Peer& self) { world.Hold(self); }},
                      {"forwarder", [&](Peer& self) { world.Forward(self); }},
                      {"third", [&](Peer& self) { world.PlayThird(self); }}};
    scenario.check = [&](const Reporter& reporter,
                         const std::vector<KillOrder>& fired) {
      world.Check(reporter, fired);
    };
    const Census before = TakeCensus({.shm_prefix = prefix});
    const KillReport report = RunKillMatrix(scenario);
    std::cout << report.ToString();
    EXPECT_TRUE(report.failures.empty()) << report.ToString();
    EXPECT_FALSE(report.given_up);
    EXPECT_GT(report.kills, 0u);
    // Only a process that outlives another one removes it.
    if (method == KillMethod::kKill) {
      EXPECT_THAT(report.unreached, IsEmpty());
    } else {
      EXPECT_THAT(
          report.unreached,
          AnyOf(IsEmpty(), testing::ElementsAre("attachments.burying")));
    }
    EXPECT_TRUE(ExpectSame(before, TakeCensus({.shm_prefix = prefix})));
  }
};

TEST_P(ArenaKillTest, OneAtEachPoint) {
  for (const char* points :
       {"att", "column.", "control_memory.", "arena_table.", "arena."}) {
    Run(points, 1);
  }
}

// The owner also while it removes another process.
TEST_P(ArenaKillTest, TwoAtPointsOfTheArena) {
  // Two stops in a run take long; and under ASan so does each fork.
  bool few = std::get<KillMethod>(GetParam()) == KillMethod::kStop;
#ifdef __SANITIZE_ADDRESS__
  few = true;
#endif
  Run(few ? "attachments." : "a", 2);
}

std::string ParamName(const testing::TestParamInfo<Param>& info) {
  const auto [strategy, method] = info.param;
  return std::string(strategy == SharingStrategy::kFileSystem
                         ? "FileSystem"
                         : "FileDescriptor") +
         (method == KillMethod::kKill ? "Killed" : "Stopped");
}

INSTANTIATE_TEST_SUITE_P(
    Kills, ArenaKillTest,
    testing::Combine(testing::Values(SharingStrategy::kFileDescriptor,
                                     SharingStrategy::kFileSystem),
                     testing::Values(KillMethod::kKill, KillMethod::kStop)),
    ParamName);

}  // namespace
}  // namespace tenon
