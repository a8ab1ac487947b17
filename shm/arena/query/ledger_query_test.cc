// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/query/ledger_query.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kBytes = 4096;

// Copies the descriptors of an offer, in place of a channel.
std::vector<UniqueFd> Travel(const std::vector<int>& fds) {
  std::vector<UniqueFd> arrived;
  for (const int fd : fds) {
    arrived.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  return arrived;
}

// The arena with this id, or one without a name.
ArenaReport Find(const LedgerReport& report, const RandomId& arena) {
  for (const ArenaReport& found : report.arenas) {
    if (found.arena == arena) return found;
  }
  return {};
}

HolderUse HolderOf(const ArenaReport& report, pid_t pid) {
  for (const HolderUse& holder : report.holders) {
    if (holder.pid == pid) return holder;
  }
  return {};
}

class LedgerQueryTest : public testing::Test {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(arena_, Arena::Create({.name = "query test"}));
    for (int i = 0; i < 3; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(Block block, arena_->TryAllocate(kBytes));
      TENON_ASSERT_OK_AND_ASSIGN(messages_.emplace_back(), block.Describe());
      blocks_.push_back(std::move(block));
    }
  }

  // A process that claims the first `count` blocks and then waits to be killed.
  absl::StatusOr<ForkedChild> Holder(size_t count) {
    const auto offer = arena_->Offer(blocks_[0]);
    if (!offer.ok()) return offer.status();
    auto peers = MakePeers({"test", "holder"}, PeerMode::kProcesses,
                           Deadline::After(absl::Seconds(20)));
    if (!peers.ok()) return peers.status();
    auto child =
        ForkedChild::Fork({.name = "holder"}, [&, count](const Reporter&) {
          Peer self = std::move((*peers)[1]);
          peers->clear();
          TENON_ASSERT_OK_AND_ASSIGN(
              auto attached,
              AttachedArena::Attach(offer->bytes, Travel(offer->fds)));
          std::vector<Hold> holds;
          for (size_t i = 0; i < count; ++i) {
            TENON_ASSERT_OK_AND_ASSIGN(holds.emplace_back(),
                                       attached->Claim(messages_[i]));
          }
          self.Step("holds");
          self.Await("test", "never").IgnoreError();
        });
    if (!child.ok()) return child.status();
    Peer self = std::move((*peers)[0]);
    peers->clear();
    const absl::Status holds = self.Await("holder", "holds");
    self_.push_back(std::move(self));
    if (!holds.ok()) return holds;
    return child;
  }

  std::shared_ptr<Arena> arena_;
  std::vector<Block> blocks_;
  std::vector<BlockDescriptor> messages_;
  std::vector<Peer> self_;
};

TEST_F(LedgerQueryTest, NamesTheMemoryAndItsDevice) {
  SetMemoryUnderTest(kTestMemory);
  const auto other = CreateArena({.name = "other memory"});
  SetMemoryUnderTest(MemoryKindId::kCpu);
  ASSERT_THAT(other, IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report, QueryLedger());
  const ArenaReport found = Find(report, (*other)->id());
  EXPECT_EQ(found.name, "other memory");
  EXPECT_EQ(found.memory, "kind 15");
  EXPECT_EQ(found.device, "74657374-0000-0000-0000-000000000000");
}

TEST_F(LedgerQueryTest, ReportsWaitsForMemory) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto small, Arena::Create({.name = "small", .quota_bytes = 4096}));
  TENON_ASSERT_OK_AND_ASSIGN(const Block all, small->TryAllocate(4096));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(small->Allocate(4096, Deadline::After(absl::Milliseconds(300))),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report, QueryLedger());
  const ArenaReport found = Find(report, small->id());
  EXPECT_EQ(found.waits.count(), 2u);
  EXPECT_EQ(found.waits.total_ns, small->Use().waits.total_ns);
  EXPECT_EQ(Find(report, arena_->id()).waits.count(), 0u);
}

TEST_F(LedgerQueryTest, FindsWhatThisProcessOwns) {
  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report, QueryLedger());
  const ArenaReport found = Find(report, arena_->id());
  EXPECT_EQ(found.name, "query test");
  EXPECT_EQ(found.owner, getpid());
  EXPECT_EQ(found.memory, "CPU");
  EXPECT_EQ(found.device, "");
  EXPECT_EQ(found.strategy, arena_->options().segment.strategy);
  EXPECT_FALSE(found.shared_writable);
  EXPECT_EQ(found.segments, 1u);
  EXPECT_EQ(found.segment_bytes, arena_->Use().segment_bytes);
  ASSERT_THAT(found.files, SizeIs(1));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, arena_->Offer(blocks_[0]));
  EXPECT_TRUE(std::any_of(offer.fds.begin(), offer.fds.end(), [&](int fd) {
    struct stat file = {};
    return fstat(fd, &file) == 0 && file.st_dev == found.files[0].device &&
           file.st_ino == found.files[0].inode;
  }));
  EXPECT_EQ(found.in_use.blocks, 3u);
  EXPECT_EQ(found.in_use.bytes, 3 * kBytes);
  EXPECT_EQ(found.free.blocks, arena_->Use().blocks_free);
  ASSERT_THAT(found.holders, SizeIs(1));
  EXPECT_EQ(found.holders[0].pid, getpid());
  EXPECT_EQ(found.holders[0].bytes, 3 * kBytes);
}

TEST_F(LedgerQueryTest, NamesEachHolderWithWhatItHolds) {
  TENON_ASSERT_OK_AND_ASSIGN(const ForkedChild one, Holder(1));
  TENON_ASSERT_OK_AND_ASSIGN(const ForkedChild two, Holder(2));
  blocks_.clear();
  absl::SleepFor(absl::Milliseconds(30));
  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report, QueryLedger());
  const ArenaReport found = Find(report, arena_->id());
  EXPECT_EQ(found.in_use.blocks, 0u);
  EXPECT_EQ(found.lent.blocks, 2u);
  EXPECT_EQ(found.resting.blocks, 1u);  // The third, which was never claimed.
  ASSERT_THAT(found.holders, SizeIs(2));
  EXPECT_EQ(found.holders[0].pid, two.pid());
  EXPECT_EQ(found.holders[0].blocks, 2u);
  EXPECT_EQ(found.holders[0].bytes, 2 * kBytes);
  EXPECT_EQ(found.holders[0].state, "running");
  EXPECT_GE(found.holders[0].oldest, absl::Milliseconds(20));
  EXPECT_EQ(HolderOf(found, one.pid()).blocks, 1u);
  // The owner reports the same.
  TENON_ASSERT_OK_AND_ASSIGN(const auto holders, arena_->Holders());
  ASSERT_THAT(holders, SizeIs(2));
  EXPECT_EQ(holders[0].pid, two.pid());
  EXPECT_EQ(holders[0].bytes, 2 * kBytes);
}

TEST_F(LedgerQueryTest, NamesThoseWhoAreAttachedAndHoldNothing) {
  TENON_ASSERT_OK_AND_ASSIGN(const ForkedChild child, Holder(0));
  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report,
                             QueryLedger({child.pid()}));
  ASSERT_THAT(report.attached, SizeIs(1));
  EXPECT_EQ(report.attached[0].pid, child.pid());
  EXPECT_EQ(report.attached[0].arenas, 1u);
}

TEST_F(LedgerQueryTest, SaysHowTheSegmentsAreNamed) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto named,
      Arena::Create({.segment = {.strategy = SharingStrategy::kFileSystem,
                                 .name_prefix = UniqueShmPrefix()},
                     .kind = SegmentKind::kSharedWritable}));
  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report,
                             QueryLedger({getpid()}));
  const ArenaReport found = Find(report, named->id());
  EXPECT_EQ(found.strategy, SharingStrategy::kFileSystem);
  EXPECT_TRUE(found.shared_writable);
}

TEST_F(LedgerQueryTest, AsksNobodyNotEvenTheStopped) {
  TENON_ASSERT_OK_AND_ASSIGN(const ForkedChild holder, Holder(1));
  ASSERT_EQ(kill(holder.pid(), SIGSTOP), 0);
  const Deadline soon = Deadline::After(absl::Seconds(20));
  std::string state;
  while (state != "stopped" && !soon.has_passed()) {
    TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report, QueryLedger());
    state = HolderOf(Find(report, arena_->id()), holder.pid()).state;
  }
  EXPECT_EQ(state, "stopped");
}

TEST_F(LedgerQueryTest, TheDeadHoldNothing) {
  TENON_ASSERT_OK_AND_ASSIGN(ForkedChild holder, Holder(2));
  holder.Kill();
  blocks_.clear();
  arena_->Use();
  TENON_ASSERT_OK_AND_ASSIGN(LedgerReport report, QueryLedger());
  ArenaReport found = Find(report, arena_->id());
  EXPECT_EQ(found.lent.blocks, 0u);
  EXPECT_EQ(found.resting.blocks, 3u);
  EXPECT_THAT(arena_->Trim(), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(report, QueryLedger());
  found = Find(report, arena_->id());
  EXPECT_EQ(found.segments, 0u);
  EXPECT_THAT(found.holders, IsEmpty());
}

TEST_F(LedgerQueryTest, ADeadOwnersArenaIsFoundByItsHolders) {
  TENON_ASSERT_OK_AND_ASSIGN(auto peers,
                             MakePeers({"test", "owner"}, PeerMode::kProcesses,
                                       Deadline::After(absl::Seconds(20))));
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild owner,
      ForkedChild::Fork({.name = "owner"}, [&](const Reporter&) {
        Peer self = std::move(peers[1]);
        peers.clear();
        TENON_ASSERT_OK_AND_ASSIGN(auto own, Arena::Create({.name = "orphan"}));
        TENON_ASSERT_OK_AND_ASSIGN(const Block block, own->TryAllocate(kBytes));
        TENON_ASSERT_OK_AND_ASSIGN(const auto message, block.Describe());
        TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, own->Offer(block));
        for (const int fd : offer.fds) {
          ASSERT_THAT(self.GiveFd("test", fd), IsOk());
        }
        // The bytes go through a memfd, as descriptors are all a peer carries.
        const UniqueFd bytes(memfd_create("offer", MFD_CLOEXEC));
        ASSERT_EQ(write(bytes.get(), &message, sizeof(message)),
                  static_cast<ssize_t>(sizeof(message)));
        ASSERT_EQ(write(bytes.get(), offer.bytes.data(), offer.bytes.size()),
                  static_cast<ssize_t>(offer.bytes.size()));
        ASSERT_THAT(self.GiveFd("test", bytes.get()), IsOk());
        self.Await("test", "never").IgnoreError();
      }));
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 4; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(fds.emplace_back(), peers[0].TakeFd("owner"));
  }
  BlockDescriptor message;
  char offer[256];
  ASSERT_EQ(pread(fds[3].get(), &message, sizeof(message), 0),
            static_cast<ssize_t>(sizeof(message)));
  const ssize_t size =
      pread(fds[3].get(), offer, sizeof(offer), sizeof(message));
  ASSERT_GT(size, 0);
  fds.resize(3);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto attached, AttachedArena::Attach({offer, static_cast<size_t>(size)},
                                           std::move(fds)));
  TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached->Claim(message));
  owner.Kill();

  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report,
                             QueryLedger({getpid()}));
  const ArenaReport found = Find(report, message.arena);
  EXPECT_EQ(found.name, "orphan");
  EXPECT_EQ(found.owner, 0);
  EXPECT_EQ(HolderOf(found, getpid()).bytes, kBytes);
}

TEST_F(LedgerQueryTest, LeavesNothingBehindAndTakesNoMemory) {
  const Census before = TakeCensus();
  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report, QueryLedger());
  EXPECT_THAT(report.hidden, IsEmpty());
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
}

TEST_F(LedgerQueryTest, WhatLooksLikeATableAndIsNoneIsLeftOut) {
  const UniqueFd fake(memfd_create("tenon.arena", MFD_CLOEXEC));
  const UniqueFd sealed(
      memfd_create("tenon.arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(sealed.get(), 1 << 20), 0);
  ASSERT_EQ(
      fcntl(sealed.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL),
      0);
  const UniqueFd column(memfd_create("tenon.column", MFD_CLOEXEC));
  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report,
                             QueryLedger({getpid()}));
  EXPECT_THAT(report.arenas, SizeIs(1));
}

TEST_F(LedgerQueryTest, ProcessesThatAreNotThereAreNoError) {
  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report,
                             QueryLedger({1 << 30, -1, 0}));
  EXPECT_THAT(report.arenas, IsEmpty());
}

}  // namespace
}  // namespace tenon
