// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Waiting for blocks, from several threads and while other processes hold them.

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/reclaim_hook.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 4096;

std::shared_ptr<Arena> MakeArena(size_t blocks) {
  return CreateArena({.segment = {.strategy = SharingStrategy::kFileDescriptor},
                      .quota_bytes = blocks * kBytes,
                      .max_blocks = 8192})
      .value();
}
Deadline Soon() { return Deadline::After(absl::Seconds(60)); }

TEST(ArenaWaitTest, ADeadlineIsKeptAndTheErrorSaysSo) {
  const auto arena = MakeArena(1);
  TENON_ASSERT_OK_AND_ASSIGN(const Block block, arena->TryAllocate(kBytes));
  const absl::Time before = absl::Now();
  EXPECT_THAT(
      arena->Allocate(kBytes, Deadline::After(absl::Milliseconds(30))),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("held by: pid")));
  EXPECT_GE(absl::Now() - before, absl::Milliseconds(29));
  EXPECT_THAT(arena->Allocate(kBytes, Deadline::Passed()),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

Block kept_for_others;  // NOLINT(cert-err58-cpp): empty.

TEST(ArenaWaitTest, AsksWhoKeepsBlocksForOthersToLetGo) {
  const auto arena = MakeArena(1);
  SetReclaimHook([] { kept_for_others.Reset(); });
  for (int i = 0; i < 3; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(kept_for_others, arena->TryAllocate(kBytes));
    ASSERT_THAT(kept_for_others.Describe(), IsOk());
    EXPECT_THAT(arena->TryAllocate(kBytes), IsOk());
  }
  TENON_ASSERT_OK_AND_ASSIGN(kept_for_others, arena->TryAllocate(kBytes));
  EXPECT_THAT(arena->Trim(), IsOk());
  EXPECT_EQ(arena->Use().segments, 0u);
  SetReclaimHook(nullptr);
}

TEST(ArenaWaitTest, WaitsUntilAThreadLetsGo) {
  const auto arena = MakeArena(1);
  TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(kBytes));
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(20));
    block.Reset();
  });
  EXPECT_THAT(arena->Allocate(kBytes, Deadline::Never()), IsOk());
  other.join();
}

TEST(ArenaWaitTest, WaitsUntilAHolderReleases) {
  const auto arena = MakeArena(1);
  TENON_ASSERT_OK_AND_ASSIGN(Block block, arena->TryAllocate(kBytes));
  TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena->Offer(block));
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(offer));
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, block.Describe());
  TENON_ASSERT_OK_AND_ASSIGN(Hold hold, attached->Claim(message));
  block.Reset();
  std::atomic<bool> released{false};
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(20));
    released = true;
    hold.Reset();
  });
  EXPECT_THAT(arena->Allocate(kBytes, Soon()), IsOk());
  EXPECT_TRUE(released);
  other.join();
}

TEST(ArenaWaitTest, SeveralThreadsShareWhatThereIs) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 500;
  const auto arena = MakeArena(2);
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        auto block = arena->Allocate(kBytes, Soon());
        ASSERT_THAT(block, IsOk());
        // No other thread has it.
        std::memset(block->data(), t, kBytes);
        if (i % 16 == 0) std::this_thread::yield();
        ASSERT_EQ(block->data()[kBytes - 1], std::byte(t));
        if (i % 2 == 0) {
          ASSERT_THAT(block->Describe(), IsOk());
        }
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kThreads * kRounds);
}

TEST(ArenaWaitTest, CopiesOfABlockAreDroppedInAnyThread) {
  const auto arena = MakeArena(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::thread> threads;
    {
      TENON_ASSERT_OK_AND_ASSIGN(const Block block,
                                 arena->Allocate(kBytes, Soon()));
      for (int t = 0; t < 3; ++t) {
        threads.emplace_back([copy = block, t]() mutable {
          copy.data()[t] = std::byte(t);
          Block another = copy;
          const Block moved = std::move(copy);
          another = moved;
        });
      }
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(arena->Use().blocks_in_use, 0u);
  }
}

TEST(ArenaWaitTest, ClaimsAndReleasesRunBesideTakingBack) {
  constexpr size_t kBlocks = 8;
  const auto arena = MakeArena(kBlocks);
  std::shared_ptr<AttachedArena> attached;
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Block block, arena->TryAllocate(kBytes));
    TENON_ASSERT_OK_AND_ASSIGN(const auto offer, arena->Offer(block));
    TENON_ASSERT_OK_AND_ASSIGN(attached, AttachTo(offer));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        auto block = arena->Allocate(kBytes, Soon());
        ASSERT_THAT(block, IsOk());
        block->data()[0] = std::byte(t * 50 + i % 50);
        const auto message = block->Describe();
        const auto hold = attached->Claim(message.value());
        ASSERT_THAT(hold, IsOk());
        block->Reset();
        ASSERT_EQ(hold->data()[0], std::byte(t * 50 + i % 50));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(arena->Trim(), IsOk());
  EXPECT_EQ(arena->Use().segments, 0u);
}

}  // namespace
}  // namespace tenon
