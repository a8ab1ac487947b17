// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Arenas and attached processes come and go without leaks; and a process that
// gets the pid of a dead holder is not mistaken for it.

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/one_thread.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr size_t kBlock = 4096;

// Mappings that the allocator may add meanwhile; a sanitizer's adds more. A
// leak of one per round would be 2,000.
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kOfMalloc = 64;
constexpr int kForks = 200;  // Each copies the tables of its shadow memory.
#else
constexpr size_t kOfMalloc = 8;
constexpr int kForks = 2'000;
#endif

class ArenaComeAndGoTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  absl::StatusOr<std::shared_ptr<Arena>> MakeArena(size_t blocks) const {
    return CreateArena(SmallArena(GetParam(), prefix_, blocks, kBlock));
  }
  // Counts once threads that close received sockets have ended.
  Census Count() const {
    EXPECT_THAT(CheckOneThread(), IsOk());
    return TakeCensus({.shm_prefix = prefix_});
  }

  const std::string prefix_ = UniqueShmPrefix();
};

absl::Status ClaimAndRelease(const ArenaOffer& offer,
                             const BlockDescriptor& message) {
  TENON_ASSIGN_OR_RETURN(const auto attached, AttachTo(offer));
  TENON_ASSIGN_OR_RETURN(const Hold hold, attached->Claim(message));
  return Expect(HasPattern(hold.bytes(), message), "wrong bytes");
}

TEST_P(ArenaComeAndGoTest, ArenasLeaveNothingBehind) {
  Census before = Count();
  size_t mappings = 0;
  for (int i = 0; i < 2'000; ++i) {
    if (i == 10) {
      before = Count();
      mappings = before.mappings;
    }
    TENON_ASSERT_OK_AND_ASSIGN(const auto arena, MakeArena(2));
    TENON_ASSERT_OK_AND_ASSIGN(SentBlock sent, MakeSentBlock(*arena, kBlock));
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer,
                               arena->Offer(sent.block));
    ASSERT_THAT(ClaimAndRelease(offer, sent.message), IsOk());
    sent.block.Reset();
    TENON_ASSERT_OK_AND_ASSIGN(const Block one, arena->TryAllocate(kBlock));
    TENON_ASSERT_OK_AND_ASSIGN(const Block two, arena->TryAllocate(kBlock));
    ASSERT_EQ(arena->Use().attached, 0u);
  }
  const Census after = Count();
  EXPECT_TRUE(ExpectSame(before, after));
  EXPECT_LE(after.mappings, mappings + kOfMalloc);
}

// In both orders: the arena is destroyed first, or the attachment.
TEST_P(ArenaComeAndGoTest, AttachmentsLeaveNothingBehind) {
  const Census before = Count();
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto arena, MakeArena(2));
    TENON_ASSERT_OK_AND_ASSIGN(SentBlock sent, MakeSentBlock(*arena, kBlock));
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer,
                               arena->Offer(sent.block));
    ASSERT_THAT(ClaimAndRelease(offer, sent.message), IsOk());
    ASSERT_THAT(arena->Holders(), IsOk());
    const Census attached_once = Count();
    for (int i = 0; i < 2'000; ++i) {
      ASSERT_THAT(ClaimAndRelease(offer, sent.message), IsOk());
      if (i % 50 != 0) continue;
      ASSERT_THAT(arena->Holders(), IsOk());  // Receives from the inbox.
      ASSERT_EQ(arena->Use().attached, 0u);
    }
    ASSERT_THAT(arena->Holders(), IsOk());
    EXPECT_TRUE(ExpectSame(attached_once, Count()));
    // An attached process keeps its holds when the arena is destroyed.
    TENON_ASSERT_OK_AND_ASSIGN(auto attached, AttachTo(offer));
    TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached->Claim(sent.message));
    sent.block.Reset();
    arena.reset();
    EXPECT_TRUE(HasPattern(hold.bytes(), sent.message));
  }
  EXPECT_TRUE(ExpectSame(before, Count()));
}

TEST_P(ArenaComeAndGoTest, HoldersThatAreForkedLeaveNothingBehind) {
  const Census before = Count();
  {
    TENON_ASSERT_OK_AND_ASSIGN(const auto arena, MakeArena(2));
    for (int i = 0; i < kForks; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(SentBlock sent, MakeSentBlock(*arena, kBlock));
      TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer,
                                 arena->Offer(sent.block));
      TENON_ASSERT_OK_AND_ASSIGN(
          ForkedChild child,
          ForkedChild::Fork({.name = "holder"}, [&](const Reporter&) {
            const auto attached = AttachTo(offer);
            ASSERT_THAT(attached, IsOk());
            auto hold = (*attached)->Claim(sent.message);
            ASSERT_THAT(hold, IsOk());
            EXPECT_TRUE(HasPattern(hold->bytes(), sent.message));
            if (i % 2 == 0) _exit(0);  // Without releasing anything.
          }));
      ASSERT_TRUE(child.EndsWell());
    }
    TENON_ASSERT_OK_AND_ASSIGN(const Block one, arena->TryAllocate(kBlock));
    TENON_ASSERT_OK_AND_ASSIGN(const Block two, arena->TryAllocate(kBlock));
    ASSERT_THAT(arena->Holders(), IsOk());
    EXPECT_EQ(arena->Use().attached, 0u);
  }
  EXPECT_TRUE(ExpectSame(before, Count()));
}

// --- Reused pids. ---

// A fork() whose child gets `pid`, or any if that is 0. -1 and errno as
// clone3().
pid_t ForkWithPid(pid_t pid) {
  clone_args arguments = {};
  arguments.exit_signal = SIGCHLD;
  if (pid != 0) {
    arguments.set_tid = reinterpret_cast<uintptr_t>(&pid);
    arguments.set_tid_size = 1;
  }
  return static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof(arguments)));
}

// A signal over a pipe that both processes inherit.
class Signal {
 public:
  Signal() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Signal() {
    close(ends_[0]);
    close(ends_[1]);
  }
  void Give() const {
    const char byte = 0;
    EXPECT_EQ(write(ends_[1], &byte, 1), 1);
  }
  void Await() const {
    char byte;
    EXPECT_EQ(RetryOnEintr([&] { return read(ends_[0], &byte, 1); }), 1);
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
};

// A child that attaches, claims and waits to be killed. It is created by
// clone3() itself, so no code that caches its own pid may run in it.
pid_t StartHolder(pid_t pid, const ArenaOffer& offer,
                  const BlockDescriptor& message, const Signal& claimed) {
  const pid_t child = ForkWithPid(pid);
  if (child != 0) return child;
  alarm(60);
  const auto attached = AttachTo(offer);
  if (!attached.ok()) _exit(1);
  const auto hold = (*attached)->Claim(message);
  if (!hold.ok() || !HasPattern(hold->bytes(), message)) _exit(2);
  claimed.Give();
  for (;;) pause();
}

void KillAndReap(pid_t pid) {
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  ASSERT_EQ(RetryOnEintr([&] { return waitpid(pid, nullptr, 0); }), pid);
}

TEST_P(ArenaComeAndGoTest, NewcomerWithTheSamePidIsNotTheDeadHolder) {
  const Census before = Count();
  {
    TENON_ASSERT_OK_AND_ASSIGN(const auto arena, MakeArena(2));
    TENON_ASSERT_OK_AND_ASSIGN(SentBlock first, MakeSentBlock(*arena, kBlock));
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer,
                               arena->Offer(first.block));
    const Signal claimed;
    // fork() and not clone3(): so that this test's library notices it.
    const pid_t holder = fork();
    if (holder == 0) {
      alarm(60);
      const auto attached = AttachTo(offer);
      if (!attached.ok()) _exit(1);
      const auto hold = (*attached)->Claim(first.message);
      if (!hold.ok()) _exit(2);
      claimed.Give();
      for (;;) pause();
    }
    ASSERT_GT(holder, 0);
    claimed.Await();
    first.block.Reset();
    // It holds its block while it lives.
    TENON_ASSERT_OK_AND_ASSIGN(SentBlock second, MakeSentBlock(*arena, kBlock));
    EXPECT_THAT(arena->TryAllocate(kBlock),
                StatusIs(absl::StatusCode::kResourceExhausted));
    KillAndReap(holder);

    const Signal newcomer_claimed;
    const pid_t newcomer =
        StartHolder(holder, offer, second.message, newcomer_claimed);
    if (newcomer < 0 &&
        (errno == EPERM || errno == ENOSYS || errno == EEXIST)) {
      GTEST_SKIP() << "no process can be given a pid here: clone3: "
                   << strerror(errno);
    }
    ASSERT_EQ(newcomer, holder);
    newcomer_claimed.Await();
    second.block.Reset();
    // The dead holder's block is reclaimed although a process with its pid
    // lives; the blocks that this process has claimed are not.
    {
      TENON_ASSERT_OK_AND_ASSIGN(const Block back, arena->TryAllocate(kBlock));
      EXPECT_THAT(arena->TryAllocate(kBlock),
                  StatusIs(absl::StatusCode::kResourceExhausted));
      TENON_ASSERT_OK_AND_ASSIGN(const auto holders, arena->Holders());
      ASSERT_EQ(holders.size(), 2u);  // The newcomer and this process.
      EXPECT_EQ(holders[0].blocks, 1u);
      EXPECT_EQ(holders[1].blocks, 1u);
    }
    KillAndReap(newcomer);
    TENON_ASSERT_OK_AND_ASSIGN(const Block one, arena->TryAllocate(kBlock));
    TENON_ASSERT_OK_AND_ASSIGN(const Block two, arena->TryAllocate(kBlock));
  }
  EXPECT_TRUE(ExpectSame(before, Count()));
}

INSTANTIATE_TEST_SUITE_P(Strategies, ArenaComeAndGoTest,
                         testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                         [](const auto& strategy) {
                           return strategy.param == SharingStrategy::kFileSystem
                                      ? "FileSystem"
                                      : "FileDescriptor";
                         });

}  // namespace
}  // namespace tenon
