// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/locks/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using FutexWord = SharedWord<uint32_t>;

// The number of sleepers that the kernel woke.
long WakeOne(const FutexWord& word) {
  return syscall(SYS_futex, word.address(), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// 0 if it was woken.
long SleepUntilWoken(const FutexWord& word, uint32_t expected) {
  const timespec long_enough = {.tv_sec = 15, .tv_nsec = 0};
  return syscall(SYS_futex, word.address(), FUTEX_WAIT, expected, &long_enough,
                 nullptr, 0);
}

TEST(KernelFutexTest, AnotherValueDoesNotSleep) {
  FutexWord word{1};
  for (int i = 0; i < 10'000; ++i) {
    KernelFutex::Wait(word, 0, Deadline::Never());
  }
}

TEST(KernelFutexTest, ADeadlineThatHasPassedDoesNotSleep) {
  FutexWord word{0};
  for (int i = 0; i < 10'000; ++i) {
    KernelFutex::Wait(word, 0, Deadline::Passed());
    KernelFutex::Wait(word, 0, Deadline::After(absl::ZeroDuration()));
  }
}

TEST(KernelFutexTest, SleepsUntilItsDeadline) {
  FutexWord word{0};
  const Deadline deadline = Deadline::After(absl::Milliseconds(5));
  while (!deadline.has_passed()) KernelFutex::Wait(word, 0, deadline);
  EXPECT_EQ(StdAtomics::Load(word, std::memory_order_relaxed), 0u);
}

// A waker may have died between its store and its call.
TEST(KernelFutexTest, ChecksAgainWithoutAWake) {
  FutexWord word{0};
  KernelFutex::Wait(word, 0, Deadline::Never());
}

// WakeOne() returns 1 only while another process sleeps on the same memory.
TEST(KernelFutexTest, SleepsWhereOtherProcessesWake) {
  SharedObject<FutexWord> word;
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sleeper, ForkedChild::Fork({}, [&](const Reporter&) {
        while (StdAtomics::Load(*word, std::memory_order_acquire) == 0) {
          KernelFutex::Wait(*word, 0, Deadline::Never());
        }
      }));
  EXPECT_TRUE(Becomes([&] { return WakeOne(*word) == 1; }));
  StdAtomics::Store(*word, 1, std::memory_order_release);
  KernelFutex::Wake(*word, 1);
  EXPECT_TRUE(sleeper.EndsWell());
}

TEST(KernelFutexTest, WakesOtherProcesses) {
  SharedObject<FutexWord> word;
  const auto sleep = [&](const Reporter&) {
    EXPECT_EQ(SleepUntilWoken(*word, 0), 0);
  };
  TENON_ASSERT_OK_AND_ASSIGN(auto one, ForkedChild::Fork({}, sleep));
  TENON_ASSERT_OK_AND_ASSIGN(auto two, ForkedChild::Fork({}, sleep));
  EXPECT_TRUE(Becomes([&] {
    KernelFutex::Wake(*word, KernelFutex::kAll);
    return one.pid_fd().HasEnded() && two.pid_fd().HasEnded();
  }));
  EXPECT_TRUE(one.EndsWell());
  EXPECT_TRUE(two.EndsWell());
}

TEST(KernelFutexTest, WakingWithoutWaitersIsHarmless) {
  FutexWord word{0};
  KernelFutex::Wake(word, 0);
  KernelFutex::Wake(word, 1);
  KernelFutex::Wake(word, ~uint32_t{0});
}

TEST(KernelFutexTest, SpinsOnlyBesideAnotherProcessor) {
  EXPECT_EQ(KernelFutex::SpinRounds() > 0, sysconf(_SC_NPROCESSORS_ONLN) > 1);
}

}  // namespace
}  // namespace tenon
