// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/system_fence.h"

#include <errno.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

// One side publishes and checks without a barrier, the other one announces
// itself, fences and checks; round by round, in two processes.
struct Round {
  alignas(64) std::atomic<uint64_t> begun{0};
  alignas(64) std::atomic<uint64_t> head{0};
  alignas(64) std::atomic<uint64_t> sleeping{0};
  alignas(64) std::atomic<uint64_t> seen_asleep{0};
  alignas(64) std::atomic<uint64_t> ended{0};
};

constexpr uint64_t kRounds = 20'000;
// On a busy machine a round takes milliseconds: fewer suffice then.
constexpr absl::Duration kEnough = absl::Seconds(10);
constexpr uint64_t kEnd = ~uint64_t{0};  // Of `begun`: the last round is over.

// There may be one core only.
void Await(const std::atomic<uint64_t>& word, uint64_t value) {
  for (int turn = 0; word.load(std::memory_order_acquire) < value; ++turn) {
    if (turn > 1'000) std::this_thread::yield();
  }
}

void PublishRounds(Round& round) {
  for (uint64_t n = 1;; ++n) {
    Await(round.begun, n);
    if (round.begun.load(std::memory_order_relaxed) == kEnd) return;
    round.head.store(n, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    const bool saw = round.sleeping.load(std::memory_order_relaxed) == n;
    round.seen_asleep.store(saw ? n : 0, std::memory_order_relaxed);
    round.ended.store(n, std::memory_order_release);
  }
}

TEST(SystemFenceTest, OfTwoProcessesOneSeesTheOther) {
  if (!JoinSystemFence()) GTEST_SKIP() << "the kernel cannot, or may not";
  const SharedObject<Round> round;
  const auto publisher =
      ForkedChild::Fork({.name = "publisher"}, [&](const Reporter&) {
        if (JoinSystemFence()) PublishRounds(*round);
      });
  ASSERT_THAT(publisher, IsOk());
  uint64_t both_blind = 0;
  const Deadline enough = Deadline::After(kEnough);
  for (uint64_t n = 1; n <= kRounds && !enough.has_passed(); ++n) {
    round->begun.store(n, std::memory_order_release);
    round->sleeping.store(n, std::memory_order_relaxed);
    ASSERT_THAT(SystemFence(), IsOk());
    const bool saw = round->head.load(std::memory_order_relaxed) == n;
    Await(round->ended, n);
    const bool was_seen =
        round->seen_asleep.load(std::memory_order_relaxed) == n;
    both_blind += !saw && !was_seen ? 1 : 0;
  }
  round->begun.store(kEnd, std::memory_order_release);
  EXPECT_EQ(both_blind, 0u);
}

TEST(SystemFenceTest, AForkedChildJoinsByItself) {
  const bool can = JoinSystemFence();
  EXPECT_TRUE(PassesInChild([can] {
    EXPECT_EQ(JoinSystemFence(), can);
    EXPECT_EQ(SystemFence().ok(), can);
  }));
}

// A child that finds a lock held waits for ever: its watchdog kills it.
TEST(SystemFenceTest, JoinsInAChildForkedWhileAnotherThreadJoins) {
  const bool can = JoinSystemFence();
  std::atomic<bool> done = false;
  std::thread other([&done] {
    while (!done.load()) JoinSystemFence();
  });
  bool all = true;
  for (int i = 0; i < 100 && all; ++i) {
    all = PassesInChild([can] { EXPECT_EQ(JoinSystemFence(), can); },
                        /*may_have_threads=*/true);
  }
  done.store(true);
  other.join();
  EXPECT_TRUE(all);
}

TEST(SystemFenceTest, IsAnErrorWhereItIsForbidden) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(FailSystemCall({.number = SYS_membarrier, .error = EPERM}));
    EXPECT_FALSE(JoinSystemFence());
    EXPECT_THAT(SystemFence(), StatusIs(absl::StatusCode::kPermissionDenied,
                                        testing::HasSubstr("membarrier")));
  }));
}

}  // namespace
}  // namespace tenon
