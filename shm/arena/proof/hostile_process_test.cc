// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Processes that hold blocks of an arena and misbehave: keep all, stop, claim
// and release without pause, flood the inbox, die, are many.

#include <signal.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/ledger/attach_message.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;
constexpr size_t kBytes = 4096;
constexpr uint64_t kMaxBlocks = ColumnLayout::kCellsAlignment;

ArenaOptions Options(size_t blocks) {
  return {.name = "victim",
          .segment = {.strategy = SharingStrategy::kFileDescriptor},
          .quota_bytes = blocks * kBytes,
          .max_blocks = kMaxBlocks};
}
Deadline Soon() { return Deadline::After(absl::Seconds(60)); }

// `count` blocks, described, and the offer with which a process can claim them.
struct Lent {
  std::vector<Block> blocks;
  std::vector<BlockDescriptor> messages;
  ArenaOffer offer;  // All are in one segment.
};
Lent Lend(Arena& arena, size_t count) {
  Lent lent;
  for (size_t i = 0; i < count; ++i) {
    lent.blocks.push_back(arena.TryAllocate(kBytes).value());
    lent.messages.push_back(lent.blocks.back().Describe().value());
  }
  lent.offer = arena.Offer(lent.blocks[0]).value();
  return lent;
}

// Attaches and claims all of them; waits in `afterwards`.
absl::StatusOr<ForkedChild> ForkHolder(
    const Lent& lent,
    const std::function<void(std::vector<Hold>&)>& afterwards) {
  return ForkedChild::Fork(
      {.name = "holder", .watchdog = absl::Minutes(3)}, [&](const Reporter&) {
        TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(lent.offer));
        std::vector<Hold> holds;
        for (const BlockDescriptor& message : lent.messages) {
          TENON_ASSERT_OK_AND_ASSIGN(holds.emplace_back(),
                                     attached->Claim(message));
        }
        afterwards(holds);
      });
}
[[noreturn]] void Keep(std::vector<Hold>&) {
  for (;;) pause();
}

// The number of blocks that this process holds, as the owner sees it.
size_t HeldBy(Arena& arena, pid_t pid) {
  size_t blocks = 0;
  for (const HolderUse& holder : HoldersOf(arena)) {
    if (holder.pid == pid) blocks += holder.blocks;
  }
  return blocks;
}

TEST(HostileProcessTest, WhoKeepsAllIsNamedAndRefusedMore) {
  ArenaOptions options = Options(16);
  options.quota_bytes_per_holder = 16 * kBytes;
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, CreateArena(options));
  Lent lent = Lend(*arena, 16);
  TENON_ASSERT_OK_AND_ASSIGN(auto hog, ForkHolder(lent, Keep));
  ASSERT_TRUE(Becomes([&] { return HeldBy(*arena, hog.pid()) == 16; }))
      << DescribeHolders(arena->Holders().value(), 3);
  lent.blocks.clear();
  const auto named = AllOf(HasSubstr(absl::StrCat("pid ", hog.pid(), " '")),
                           HasSubstr("(running) 16 blocks, 65536 bytes"),
                           HasSubstr("oldest"), HasSubstr("quota 65536"));
  EXPECT_THAT(arena->TryAllocate(kBytes), StatusIs(kResourceExhausted, named));
  EXPECT_THAT(arena->Allocate(kBytes, Deadline::After(absl::Milliseconds(20))),
              StatusIs(absl::StatusCode::kDeadlineExceeded, named));
  RandomId column;
  for (const HolderUse& holder : HoldersOf(*arena)) {
    if (holder.pid == hog.pid()) column = holder.column;
  }
  EXPECT_THAT(
      arena->CheckHolder(column, 1),
      StatusIs(kResourceExhausted, HasSubstr(absl::StrCat("pid ", hog.pid()))));
  hog.Kill();
  for (int i = 0; i < 16; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(lent.blocks.emplace_back(),
                               arena->TryAllocate(kBytes));
  }
  EXPECT_EQ(arena->Use().attached, 0u);
}

TEST(HostileProcessTest, WhoIsStoppedIsNamedSoAndKeepsWhatItHolds) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, CreateArena(Options(1)));
  Lent lent = Lend(*arena, 1);
  TENON_ASSERT_OK_AND_ASSIGN(auto holder,
                             ForkHolder(lent, [](std::vector<Hold>& holds) {
                               raise(SIGSTOP);
                               holds.clear();
                               for (;;) pause();
                             }));
  ASSERT_TRUE(Becomes([&] { return HeldBy(*arena, holder.pid()) == 1; }));
  lent.blocks.clear();
  const auto is_stopped = [&] {
    return arena->Holders().value()[0].state == "stopped";
  };
  ASSERT_TRUE(Becomes(is_stopped));
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(
        arena->Allocate(kBytes, Deadline::After(absl::Milliseconds(10))),
        StatusIs(absl::StatusCode::kDeadlineExceeded,
                 AllOf(HasSubstr(absl::StrCat("pid ", holder.pid())),
                       HasSubstr("(stopped) 1 blocks"))));
  }
  ASSERT_EQ(kill(holder.pid(), SIGCONT), 0);
  EXPECT_THAT(arena->Allocate(kBytes, Soon()), IsOk());
}

TEST(HostileProcessTest, WhoMovesIsNamedAndOthersBlocksComeBack) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, CreateArena(Options(32)));
  Lent lent = Lend(*arena, 32);
  const TestColumn column;
  const TestAttach attach(arena->id(), kMaxBlocks, &column);
  ASSERT_TRUE(attach.Send(lent.offer.fds[ArenaOfferFacts::kInbox]));
  // Claims and releases blocks with even numbers, as fast as it can.
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto mover,
      ForkedChild::Fork({.name = "mover", .watchdog = absl::Minutes(3)},
                        [&](const Reporter&) {
                          for (;;) {
                            for (size_t i = 0; i < 32; i += 2) {
                              column.words()[i].fetch_add(LeaseCell::kClaim);
                            }
                          }
                        }));
  lent.blocks.clear();
  const auto moved = [&] {
    // In each round the owner gets all the other blocks.
    std::vector<Block> blocks;
    for (auto block = arena->TryAllocate(kBytes); block.ok();
         block = arena->TryAllocate(kBytes)) {
      EXPECT_THAT(block->Describe(), IsOk());
      blocks.push_back(*std::move(block));
    }
    EXPECT_GE(blocks.size(), 16u);
    blocks.clear();
    EXPECT_THAT(arena->Trim(), IsOk());
    const auto holders = arena->Holders().value();
    return DescribeHolders(holders, 3).find("claimed and released during") !=
           std::string::npos;
  };
  EXPECT_TRUE(Becomes(moved));
}

TEST(HostileProcessTest, AFullInboxEndsNothingButAttachingAndTakingBack) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, CreateArena(Options(4)));
  Lent lent = Lend(*arena, 1);
  const int inbox = lent.offer.fds[ArenaOfferFacts::kInbox];
  TENON_ASSERT_OK_AND_ASSIGN(
      auto flooder,
      ForkedChild::Fork({.name = "flooder", .watchdog = absl::Minutes(3)},
                        [&](const Reporter&) {
                          const std::string junk(sizeof(AttachMessage), 'x');
                          for (;;) SendPacket(inbox, junk, {});
                        }));
  for (int i = 0; i < 200; ++i) {
    const auto attached = AttachTo(lent.offer);
    if (!attached.ok()) {
      ASSERT_THAT(attached, StatusIs(kResourceExhausted, HasSubstr("full")));
    }
    const auto block = arena->TryAllocate(kBytes);
    if (!block.ok()) {
      ASSERT_THAT(block, StatusIs(kResourceExhausted, HasSubstr("quota")));
    } else {
      ASSERT_THAT(block->Describe(), IsOk());
    }
  }
  flooder.Kill();
  lent.blocks.clear();
  EXPECT_TRUE(Becomes([&] {
    EXPECT_THAT(arena->Trim(), IsOk());
    return arena->Use().segments == 0;
  }));
  EXPECT_GT(arena->Use().refused, 0u);
}

// It is refused: its cells are not read. So it may hold each block that had
// been handed out, and no other one.
TEST(HostileProcessTest, OneThatIsRefusedWithholdsOlderBlocksOnly) {
  constexpr size_t kAll = 16, kOlder = 4;
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, CreateArena(Options(kAll)));
  Lent lent = Lend(*arena, kOlder);
  std::set<const std::byte*> older;
  for (const Block& block : lent.blocks) {
    memset(block.data(), 0x5A, block.size());
    older.insert(block.data());
  }
  const int inbox = lent.offer.fds[ArenaOfferFacts::kInbox];
  TENON_ASSERT_OK_AND_ASSIGN(
      auto refused,
      ForkedChild::Fork({.name = "refused", .watchdog = absl::Minutes(3)},
                        [&](const Reporter&) {
                          TENON_ASSERT_OK_AND_ASSIGN(const PidFd owner,
                                                     PidFd::Open(getppid()));
                          TestAttach attach(arena->id(), kMaxBlocks);
                          attach.fds[AttachMessage::kProcess] = owner.fd();
                          ASSERT_TRUE(attach.Send(inbox));
                          for (;;) pause();
                        }));
  ASSERT_TRUE(Becomes([&] {
    arena->Holders().status().IgnoreError();  // Looks into the inbox.
    return arena->Use().refused != 0;
  }));
  lent.blocks.clear();
  for (int i = 0; i < 1'000; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Block block, arena->TryAllocate(kBytes));
    ASSERT_FALSE(older.contains(block.data())) << "reused after " << i;
    memset(block.data(), i, block.size());
    ASSERT_THAT(block.Describe(), IsOk());
  }
  for (const std::byte* data : older) {
    EXPECT_EQ(std::count(data, data + kBytes, std::byte{0x5A}), kBytes);
  }
  std::vector<Block> rest;
  for (size_t i = kOlder; i < kAll; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(rest.emplace_back(), arena->TryAllocate(kBytes));
  }
  EXPECT_THAT(
      arena->TryAllocate(kBytes),
      StatusIs(
          kResourceExhausted,
          AllOf(HasSubstr("4 blocks, 16384 bytes (16.0 KiB), are withheld"),
                HasSubstr(absl::StrCat("pid ", refused.pid(),
                                       " was refused (pid ")))));
  EXPECT_EQ(arena->Use().blocks_withheld, kOlder);
  refused.Kill();
  while (rest.size() < kAll) {
    TENON_ASSERT_OK_AND_ASSIGN(rest.emplace_back(), arena->TryAllocate(kBytes));
  }
  EXPECT_EQ(arena->Use().blocks_withheld, 0u);
}

// The owner leaves the second attachment above the limit in its inbox, so it
// reclaims nothing, and names the process. A process that claims every block
// can do as much.
TEST(HostileProcessTest, WhoAttachesAllTheTimeIsNamedUntilItEnds) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, CreateArena(Options(1)));
  Lent lent = Lend(*arena, 1);
  const int inbox = lent.offer.fds[ArenaOfferFacts::kInbox];
  TENON_ASSERT_OK_AND_ASSIGN(
      auto flooder,
      ForkedChild::Fork({.name = "flooder", .watchdog = absl::Minutes(3)},
                        [&](const Reporter&) {
                          const TestColumn column;
                          std::deque<TestAttach> leases;
                          while (leases.size() < 100) {
                            leases.emplace_back(arena->id(), kMaxBlocks,
                                                &column);
                            ASSERT_TRUE(leases.back().Send(inbox));
                          }
                          for (;;) pause();
                        }));
  ASSERT_TRUE(Becomes([&] {
    arena->Holders().status().IgnoreError();  // Looks into the inbox.
    return arena->Use().refused != 0;
  }));
  EXPECT_EQ(arena->Use().refused, 1u);
  EXPECT_EQ(arena->Use().attached, 64u);
  lent.blocks.clear();
  EXPECT_THAT(arena->TryAllocate(kBytes),
              StatusIs(kResourceExhausted,
                       HasSubstr(absl::StrCat("pid ", flooder.pid()))));
  flooder.Kill();
  EXPECT_THAT(arena->TryAllocate(kBytes), IsOk());
  EXPECT_EQ(arena->Use().attached, 0u);
}

TEST(HostileProcessTest, SixtyFourHoldersAtOnce) {
  constexpr size_t kHolders = 64;
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, CreateArena(Options(8)));
  Lent lent = Lend(*arena, 8);
  std::vector<ForkedChild> holders;
  for (size_t i = 0; i < kHolders; ++i) {
    auto holder = i % 2 == 0 ? ForkHolder(lent, Keep)
                             : ForkHolder(lent, [](std::vector<Hold>& holds) {
                                 raise(SIGSTOP);
                                 holds.clear();
                                 for (;;) pause();
                               });
    ASSERT_THAT(holder, IsOk());
    holders.push_back(*std::move(holder));
  }
  ASSERT_TRUE(Becomes([&] {
    size_t whole = 0;
    for (const HolderUse& holder : HoldersOf(*arena)) {
      whole += holder.blocks == 8 && holder.pid != getpid();
    }
    return whole == kHolders;
  }));
  lent.blocks.clear();
  EXPECT_THAT(arena->TryAllocate(kBytes),
              StatusIs(kResourceExhausted, HasSubstr("and 61 more")));
  for (size_t i = 0; i < kHolders; i += 2) holders[i].Kill();
  EXPECT_THAT(arena->TryAllocate(kBytes), StatusIs(kResourceExhausted));
  EXPECT_EQ(arena->Use().attached, kHolders / 2);
  // SIGCONT before SIGSTOP would be lost.
  for (size_t i = 1; i < kHolders; i += 2) {
    ASSERT_TRUE(Becomes([&] {
      kill(holders[i].pid(), SIGCONT);
      return HeldBy(*arena, holders[i].pid()) == 0;
    }));
  }
  for (int i = 0; i < 8; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(lent.blocks.emplace_back(),
                               arena->TryAllocate(kBytes));
  }
}

TEST(HostileProcessTest, AHundredThousandBlocksOfWhichOneHalfIsKept) {
  // The maximum number, so that none are new afterwards.
  constexpr size_t kCount = 13 * kMaxBlocks;
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto arena,
      CreateArena({.segment = {.strategy = SharingStrategy::kFileDescriptor},
                   .max_blocks = kCount}));
  std::vector<Block> blocks;
  std::vector<Hold> holds;
  std::shared_ptr<AttachedArena> attached;
  for (size_t i = 0; i < kCount; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(64));
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, block.Describe());
    if (attached == nullptr || !attached->Claim(message).ok()) {
      TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena->Offer(block));
      if (attached == nullptr) {
        TENON_ASSERT_OK_AND_ASSIGN(attached, AttachTo(offer));
      } else {
        ASSERT_THAT(attached->Add(offer.bytes, Travel(offer.fds)), IsOk());
      }
    }
    TENON_ASSERT_OK_AND_ASSIGN(holds.emplace_back(), attached->Claim(message));
    blocks.push_back(std::move(block));
  }
  blocks.clear();
  EXPECT_EQ(arena->Use().blocks_released, kCount);
  for (size_t i = 0; i < kCount; i += 2) holds[i].Reset();
  for (size_t i = 0; i < kCount / 2; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(blocks.emplace_back(),
                               arena->Allocate(64, Soon()));
  }
  EXPECT_EQ(arena->Use().blocks_released, kCount / 2);
  holds.clear();
  blocks.clear();
  EXPECT_TRUE(Becomes([&] {
    EXPECT_THAT(arena->Trim(), IsOk());
    return arena->Use().segments == 0;
  }));
}

}  // namespace
}  // namespace tenon
