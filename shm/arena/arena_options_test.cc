// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The options of an arena, and its bounds.

#include "tenon/shm/arena/arena_options.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/ledger/column.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using enum absl::StatusCode;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kBytes = 4096;

ArenaOptions Options() {
  return {.name = "frames",
          .segment = {.strategy = SharingStrategy::kFileDescriptor},
          .max_blocks = 8192};
}

std::shared_ptr<Arena> MakeArena(const ArenaOptions& options) {
  return CreateArena(options).value();
}

std::vector<std::byte> BytesOf(const Block& block) {
  return {block.data(), block.data() + block.size()};
}

TEST(ArenaOptionsTest, SegmentsHaveNoChosenName) {
  ArenaOptions options = Options();
  options.segment = {.name = "frames"};
  EXPECT_THAT(CreateArena(options),
              StatusIs(kInvalidArgument, HasSubstr("leave it empty")));
}

TEST(ArenaOptionsTest, NamesThatCannotBeAreRefused) {
  ArenaOptions options = Options();
  for (const std::string& name :
       {std::string(40, 'x'), std::string("new\nline"), std::string(1, '\0'),
        std::string("\xc3\xa4")}) {
    options.name = name;
    EXPECT_THAT(CreateArena(options), StatusIs(kInvalidArgument)) << name;
  }
  for (const std::string& name : {std::string(), std::string(39, 'x')}) {
    options.name = name;
    EXPECT_THAT(CreateArena(options), IsOk());
  }
}

TEST(ArenaOptionsTest, NumbersOfBlocksAreBoundedAndRoundedUp) {
  ArenaOptions options = Options();
  for (const uint64_t blocks :
       {uint64_t{0}, (uint64_t{1} << 24) + 1, UINT64_MAX}) {
    options.max_blocks = blocks;
    EXPECT_THAT(CreateArena(options), StatusIs(kInvalidArgument)) << blocks;
  }
  options.max_blocks = 1;
  EXPECT_EQ(MakeArena(options)->options().max_blocks, 8192u);
  options.max_blocks = uint64_t{1} << 24;
  EXPECT_EQ(MakeArena(options)->options().max_blocks, uint64_t{1} << 24);
}

TEST(ArenaOptionsTest, MoreThanMaxBlocksAreAnError) {
  const auto arena = MakeArena(Options());
  std::vector<Block> blocks;
  for (int i = 0; i < 8192; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(blocks.emplace_back(), arena->TryAllocate(64));
  }
  EXPECT_THAT(arena->TryAllocate(64),
              StatusIs(kResourceExhausted,
                       AllOf(HasSubstr("8192 blocks"), HasSubstr("max_blocks"),
                             HasSubstr("'frames'"))));
  blocks.pop_back();
  EXPECT_THAT(arena->TryAllocate(64), IsOk());
}

TEST(ArenaOptionsTest, BlocksLargerThanTheQuotaCanNeverBe) {
  ArenaOptions options = Options();
  options.quota_bytes = 2 * kBytes;
  const auto arena = MakeArena(options);
  for (const size_t bytes :
       {2 * kBytes + 1, size_t{1} << 47, (size_t{1} << 47) + 1, SIZE_MAX}) {
    EXPECT_THAT(arena->TryAllocate(bytes),
                StatusIs(kInvalidArgument,
                         AllOf(HasSubstr("'frames'"), HasSubstr("8192"))))
        << bytes;
  }
  EXPECT_THAT(arena->TryAllocate(2 * kBytes), IsOk());
}

TEST(ArenaOptionsTest, TheQuotaIsKept) {
  ArenaOptions options = Options();
  options.quota_bytes = 10 * kBytes + 5;
  const auto arena = MakeArena(options);
  std::vector<Block> blocks;
  for (int i = 0; i < 10; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(blocks.emplace_back(),
                               arena->TryAllocate(kBytes));
  }
  EXPECT_THAT(
      arena->TryAllocate(1),
      StatusIs(kResourceExhausted,
               AllOf(HasSubstr("40960 bytes (40.0 KiB) in segments"),
                     HasSubstr(absl::StrCat("quota ", options.quota_bytes)),
                     HasSubstr(absl::StrCat("pid ", getpid(), " '")),
                     HasSubstr("10 blocks, 40960 bytes (40.0 KiB), oldest "))));
  EXPECT_LE(arena->Use().segment_bytes, options.quota_bytes);
}

TEST(ArenaOptionsTest, ARequestThatCanNeverBeMetFailsAtOnce) {
  const auto arena = MakeArena(Options());
  // Of which the deadline is none: no wait helps.
  EXPECT_THAT(arena->Allocate(size_t{1} << 46, Deadline::Never()),
              StatusIs(kResourceExhausted,
                       AllOf(HasSubstr("70368744177664 bytes (64.0 TiB) "
                                       "exceeds all memory"),
                             HasSubstr("MemTotal"))));
  EXPECT_THAT(arena->Allocate(size_t{1} << 50, Deadline::Never()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("want at most 140737488355328 bytes")));
  ArenaOptions options = Options();
  options.quota_bytes = 1 << 20;
  EXPECT_THAT(MakeArena(options)->Allocate(2 << 20, Deadline::Never()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("its quota, 1048576 bytes (1.0 MiB)")));
}

TEST(ArenaOptionsTest, ABlockLargerThanAFileMayBeFailsAtOnce) {
  EXPECT_TRUE(PassesInChild([] {
    const auto arena = MakeArena(Options());
    const rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_THAT(arena->Allocate(2 << 20, Deadline::Never()),
                StatusIs(kResourceExhausted,
                         AllOf(HasSubstr("arena 'frames', 2097152 bytes"),
                               HasSubstr("1048576 bytes (1.0 MiB), "
                                         "RLIMIT_FSIZE"))));
    EXPECT_THAT(arena->Allocate(kBytes, Deadline::Never()), IsOk());
  }));
}

TEST(ArenaOptionsTest, ABlockLargerThanDevShmFailsAtOnce) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m"));
    ArenaOptions options = Options();
    options.segment.strategy = SharingStrategy::kFileSystem;
    const auto arena = MakeArena(options);
    EXPECT_THAT(arena->Allocate(2 << 20, Deadline::Never()),
                StatusIs(kResourceExhausted,
                         AllOf(HasSubstr("arena 'frames' in /dev/shm, 2097152"),
                               HasSubstr("of 1048576 bytes (1.0 MiB)"),
                               HasSubstr("--shm-size"))));
    EXPECT_THAT(arena->Allocate(kBytes, Deadline::Never()), IsOk());
  }));
}

// The block fits the size of /dev/shm, but not the free memory there: other
// arenas may free some while the call waits. The error names the free memory.
TEST(ArenaOptionsTest, ABlockWaitsForMemoryOfOthersInDevShm) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m"));
    ArenaOptions options = Options();
    options.segment.strategy = SharingStrategy::kFileSystem;
    auto other = MakeArena(options);
    TENON_ASSERT_OK_AND_ASSIGN(Block held, other->TryAllocate(768 << 10));
    const auto arena = MakeArena(options);
    const auto says_what_is_free = AllOf(
        HasSubstr("/dev/shm has "), HasSubstr(" of 1048576 bytes (1.0 MiB)"));
    EXPECT_THAT(arena->TryAllocate(512 << 10),
                StatusIs(kResourceExhausted, says_what_is_free));
    EXPECT_THAT(
        arena->Allocate(512 << 10, Deadline::After(absl::Milliseconds(300))),
        StatusIs(absl::StatusCode::kDeadlineExceeded, says_what_is_free));
    std::thread drops([&] {
      absl::SleepFor(absl::Milliseconds(200));
      held = Block();
      other.reset();
    });
    EXPECT_THAT(arena->Allocate(512 << 10, Deadline::After(absl::Minutes(1))),
                IsOk());
    drops.join();
  }));
}

TEST(ArenaOptionsTest, HoldersHaveAQuotaOfTheirOwn) {
  ArenaOptions options = Options();
  options.quota_bytes_per_holder = 2 * kBytes;
  const auto arena = MakeArena(options);
  std::vector<Block> blocks(3);
  for (Block& block : blocks) block = arena->TryAllocate(kBytes).value();
  TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena->Offer(blocks[0]));
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(offer));
  // The same process once more: its holds through either count.
  TENON_ASSERT_OK_AND_ASSIGN(const auto again, AttachTo(offer));
  TENON_ASSERT_OK_AND_ASSIGN(const auto own_column, Column::OfThisProcess());
  const RandomId column = own_column->id();
  std::vector<Hold> holds;
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(arena->CheckHolder(column, kBytes), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, blocks[i].Describe());
    TENON_ASSERT_OK_AND_ASSIGN(holds.emplace_back(),
                               (i == 0 ? attached : again)->Claim(message));
  }
  EXPECT_THAT(arena->CheckHolder(column, 1),
              StatusIs(kResourceExhausted,
                       AllOf(HasSubstr(absl::StrCat("pid ", getpid())),
                             HasSubstr("holds 8192 bytes"),
                             HasSubstr("may hold 8192 bytes (8.0 KiB)"))));
  // A process that is not attached holds nothing.
  EXPECT_THAT(arena->CheckHolder({1, 1}, 2 * kBytes), IsOk());
  EXPECT_THAT(arena->CheckHolder({1, 1}, 2 * kBytes + 1),
              StatusIs(kResourceExhausted, HasSubstr("quota of a holder")));
  holds.pop_back();
  EXPECT_THAT(arena->CheckHolder(column, kBytes), IsOk());
}

TEST(ArenaOptionsTest, WipedBlocksAreZeroWhenTheyAreUsedAgain) {
  for (const bool exposed : {false, true}) {
    ArenaOptions options = Options();
    options.wipe = true;
    options.quota_bytes = kBytes;
    const auto arena = MakeArena(options);
    for (int i = 0; i < 2; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(kBytes));
      EXPECT_THAT(BytesOf(block), Each(std::byte{0}));
      std::memset(block.data(), 0x11, block.size());
      if (exposed) {
        EXPECT_THAT(block.Describe(), IsOk());
      }
    }
  }
}

TEST(ArenaOptionsTest, PoisonIsWhatAStaleViewReads) {
  ArenaOptions options = Options();
  options.debug = ArenaDebug::kPoison;
  const auto arena = MakeArena(options);
  TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(100));
  std::memset(block.data(), 0x11, block.size());
  TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena->Offer(block));
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(offer));
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, block.Describe());
  TENON_ASSERT_OK_AND_ASSIGN(Hold hold, attached->Claim(message));
  const std::byte* const owners = block.data();
  const std::byte* const holders = hold.data();
  // Keeps the segment from being retired, and the memory mapped.
  TENON_ASSERT_OK_AND_ASSIGN(const Block other, arena->TryAllocate(100));
  block.Reset();
  EXPECT_THAT(arena->Trim(), IsOk());
  EXPECT_EQ(holders[0], std::byte{0x11});  // Held: not touched.
  hold.Reset();
  EXPECT_THAT(arena->Trim(), IsOk());
  EXPECT_EQ(owners[0], std::byte{0xDF});
  EXPECT_EQ(holders[0], std::byte{0xDF});
}

TEST(ArenaOptionsTest, ProtectedBlocksEndAProcessThatUsesThemTooLate) {
  ArenaOptions options = Options();
  options.debug = ArenaDebug::kProtect;
  options.quota_bytes = 4 * kBytes;
  const auto arena = MakeArena(options);
  TENON_ASSERT_OK_AND_ASSIGN(const Block other, arena->TryAllocate(kBytes));
  for (const bool exposed : {false, true}) {
    TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(kBytes));
    std::memset(block.data(), 0x11, block.size());
    if (exposed) {
      EXPECT_THAT(block.Describe(), IsOk());
    }
    const volatile std::byte* const stale = block.data();
    EXPECT_EQ(std::byte{*stale}, std::byte{0x11});
    block.Reset();
    EXPECT_THAT(arena->Trim(), IsOk());
    EXPECT_DEATH((void)*stale, "");
  }
  // And can be reused by their owner.
  std::vector<Block> blocks;
  for (int i = 0; i < 3; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(blocks.emplace_back(),
                               arena->TryAllocate(kBytes));
    std::memset(blocks.back().data(), 1, kBytes);
  }
}

TEST(ArenaOptionsTest, SmallBlocksOfAProtectedArenaArePoisoned) {
  ArenaOptions options = Options();
  options.debug = ArenaDebug::kProtect;
  const auto arena = MakeArena(options);
  TENON_ASSERT_OK_AND_ASSIGN(const Block other, arena->TryAllocate(64));
  TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(64));
  const volatile std::byte* const stale = block.data();
  block.Reset();
  EXPECT_EQ(std::byte{*stale}, std::byte{0xDF});
}

TEST(ArenaOptionsTest, AtTheLimitOfDescriptorsTheErrorNamesIt) {
  EXPECT_TRUE(PassesInChild([] {
    const auto arena = MakeArena(Options());
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const int next = dup(0);
    ASSERT_EQ(close(next), 0);
    const rlimit none = {static_cast<rlim_t>(next), limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto second = CreateArena(Options());
    const auto block = arena->TryAllocate(kBytes);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_THAT(second,
                StatusIs(kResourceExhausted, HasSubstr("RLIMIT_NOFILE")));
    EXPECT_THAT(block,
                StatusIs(kResourceExhausted, HasSubstr("RLIMIT_NOFILE")));
    EXPECT_EQ(arena->Use().segments, 0u);
    EXPECT_THAT(arena->TryAllocate(kBytes), IsOk());
  }));
}

// The owner's forked child.
TEST(ArenaForkTest, ForkedChildHasNoArenaAndFreesNothing) {
  const auto arena = MakeArena(Options());
  TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(kBytes));
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, block.Describe());
  TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena->Offer(block));
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(offer));
  constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(arena->TryAllocate(kBytes), StatusIs(kFailedPrecondition));
    EXPECT_THAT(arena->Trim(), StatusIs(kFailedPrecondition));
    EXPECT_THAT(arena->Holders(), StatusIs(kFailedPrecondition));
    EXPECT_THAT(arena->Offer(block), StatusIs(kFailedPrecondition));
    EXPECT_THAT(arena->CheckHolder({1, 1}, 1), StatusIs(kFailedPrecondition));
    EXPECT_THAT(block.Describe(), StatusIs(kFailedPrecondition));
    EXPECT_EQ(arena->Use().segments, 0u);
    block.Reset();
  }));
  EXPECT_EQ(arena->Use().blocks_in_use, 1u);
  EXPECT_THAT(attached->Claim(message), IsOk());
}

TEST(ArenaForkTest, ArenaThatEndsInAForkedChildGoesOnInItsParent) {
  auto arena = MakeArena(Options());
  TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(kBytes));
  TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena->Offer(block));
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(offer));
  EXPECT_TRUE(PassesInChild([&] {
    block.Reset();
    std::weak_ptr<Arena> ended = arena;
    arena.reset();
    EXPECT_TRUE(ended.expired());
  }));
  // Not closed: later blocks are still reclaimed.
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, block.Describe());
  EXPECT_THAT(attached->Claim(message), IsOk());
  block.Reset();
  EXPECT_THAT(arena->Trim(), IsOkAndHolds(size_t{256} << 10));
  EXPECT_EQ(arena->Use().segments, 0u);
}

}  // namespace
}  // namespace tenon
