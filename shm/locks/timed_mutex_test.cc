// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/locks/timed_mutex.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"

namespace tenon {
namespace {

constexpr auto kLong = absl::Seconds(30);

Deadline LongEnough() { return Deadline::After(kLong); }

// The tests lock and unlock in ways that clang's analysis rejects.
bool Lock(TimedMutex& mutex, Deadline deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  return mutex.Lock(deadline);
}
void Unlock(TimedMutex& mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  mutex.Unlock();
}

TEST(TimedMutexTest, AFreeMutexIsLockedEvenAfterTheDeadline) {
  TimedMutex mutex;
  EXPECT_TRUE(Lock(mutex, Deadline::Passed()));
  Unlock(mutex);
  EXPECT_TRUE(Lock(mutex, Deadline::Never()));
  Unlock(mutex);
}

TEST(TimedMutexTest, AHeldMutexIsNotLocked) {
  TimedMutex mutex;
  ASSERT_TRUE(Lock(mutex, Deadline::Passed()));
  EXPECT_FALSE(Lock(mutex, Deadline::Passed()));
  const Deadline soon = Deadline::After(absl::Milliseconds(5));
  EXPECT_FALSE(Lock(mutex, soon));
  EXPECT_TRUE(soon.has_passed());
  Unlock(mutex);
}

TEST(TimedMutexTest, ATimeoutLeavesItAsItWas) {
  TimedMutex mutex;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Lock(mutex, Deadline::Passed()));
    EXPECT_FALSE(Lock(mutex, Deadline::After(absl::Milliseconds(1))));
    Unlock(mutex);
  }
}

TEST(TimedMutexTest, UnlockingLetsAllWaitersInOneByOne) {
  TimedMutex mutex;
  ASSERT_TRUE(Lock(mutex, Deadline::Passed()));
  std::atomic<int> waiting = 0;
  int had = 0;  // Guarded by `mutex`.
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      ++waiting;
      ASSERT_TRUE(Lock(mutex, LongEnough()));
      ++had;
      Unlock(mutex);
    });
  }
  while (waiting < 6) std::this_thread::yield();
  EXPECT_EQ(had, 0);
  Unlock(mutex);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(had, 6);
}

// With deadlines that pass in the middle of each other's waits.
TEST(TimedMutexTest, ExcludesAndLosesNoUnlock) {
  TimedMutex mutex;
  int had = 0;  // Guarded by `mutex`.
  std::atomic<int> counted = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, is_patient = i % 2 == 0] {
      for (int round = 0; round < 3000; ++round) {
        const TimedMutexLock lock(
            &mutex, is_patient ? LongEnough()
                               : Deadline::After(absl::Microseconds(20)));
        ASSERT_TRUE(lock.held() || !is_patient);
        if (!lock.held()) continue;
        ++had;
        ++counted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(had, counted);
  EXPECT_GE(had, 2 * 3000);
}

// ---- The bias of the first thread ----

// Runs `work` in a thread of its own.
void InAnotherThread(const std::function<void()>& work) {
  std::thread(work).join();
}

// Whether another thread acquires it by `deadline`; then it has released it.
bool AnotherThreadLocks(TimedMutex& mutex, Deadline deadline) {
  bool locked = false;
  InAnotherThread([&] {
    locked = Lock(mutex, deadline);
    if (locked) Unlock(mutex);
  });
  return locked;
}

// Makes the calling thread the first that has locked it.
void LockAndUnlock(TimedMutex& mutex) {
  ASSERT_TRUE(Lock(mutex, Deadline::Passed()));
  Unlock(mutex);
}

TEST(TimedMutexBiasTest, AFreeOneOfAnotherThreadIsLockedEvenIfItIsLate) {
  TimedMutex mutex;
  LockAndUnlock(mutex);
  EXPECT_TRUE(AnotherThreadLocks(mutex, Deadline::Passed()));
  EXPECT_TRUE(AnotherThreadLocks(mutex, LongEnough()));
  LockAndUnlock(mutex);
}

TEST(TimedMutexBiasTest, AHeldOneIsHeldForAllUntilTheFirstThreadUnlocks) {
  for (const bool asked_before : {false, true}) {
    TimedMutex mutex;
    ASSERT_TRUE(Lock(mutex, Deadline::Passed()));
    if (asked_before) {
      EXPECT_FALSE(AnotherThreadLocks(mutex, Deadline::Passed()));
    }
    const Deadline soon = Deadline::After(absl::Milliseconds(5));
    EXPECT_FALSE(AnotherThreadLocks(mutex, soon));
    EXPECT_TRUE(soon.has_passed());
    // Its bias is revoked now, and it still holds it.
    EXPECT_FALSE(AnotherThreadLocks(mutex, Deadline::Passed()));
    EXPECT_FALSE(Lock(mutex, Deadline::Passed()));
    Unlock(mutex);
    EXPECT_TRUE(AnotherThreadLocks(mutex, Deadline::Passed()));
    LockAndUnlock(mutex);
  }
}

TEST(TimedMutexBiasTest, TheFirstThreadWakesAWaiter) {
  TimedMutex mutex;
  ASSERT_TRUE(Lock(mutex, Deadline::Passed()));
  std::atomic<bool> waits = false, locked = false;
  std::thread waiter([&] {
    waits = true;
    ASSERT_TRUE(Lock(mutex, LongEnough()));
    locked = true;
    Unlock(mutex);
  });
  while (!waits) std::this_thread::yield();
  absl::SleepFor(absl::Milliseconds(5));
  EXPECT_FALSE(locked);
  Unlock(mutex);
  waiter.join();
  EXPECT_TRUE(locked);
}

// Threads that follow each other often have one address, and so one name.
TEST(TimedMutexBiasTest, AnEndedThreadNeitherHoldsNorHandsOn) {
  TimedMutex mutex;
  for (int i = 0; i < 100; ++i) {
    InAnotherThread([&] { LockAndUnlock(mutex); });
  }
  LockAndUnlock(mutex);
  EXPECT_TRUE(AnotherThreadLocks(mutex, LongEnough()));
}

// ---- Without fences ----

void LockFromSomeThreads() {
  TimedMutex mutex;
  LockAndUnlock(mutex);
  uint64_t had = 0;  // Guarded by `mutex`.
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n) {
        ASSERT_TRUE(Lock(mutex, LongEnough()));
        ++had;
        Unlock(mutex);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(had, 3000u);
}

TEST(TimedMutexBiasTest, WorksWhereFencesAreForbidden) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(FailSystemCall({.number = SYS_membarrier, .error = EPERM}));
    LockFromSomeThreads();
  }));
}

TEST(TimedMutexBiasTest, WorksWhereTheProcessForbidsItselfFences) {
  EXPECT_TRUE(PassesInChild([] {
    TimedMutex free, held;
    LockAndUnlock(free);
    ASSERT_TRUE(Lock(held, Deadline::Passed()));
    ASSERT_TRUE(FailSystemCall({.number = SYS_membarrier,
                                .argument = 0,
                                .value = MEMBARRIER_CMD_GLOBAL_EXPEDITED,
                                .error = EPERM}));
    EXPECT_TRUE(AnotherThreadLocks(free, Deadline::Passed()));
    EXPECT_FALSE(
        AnotherThreadLocks(held, Deadline::After(absl::Milliseconds(5))));
    Unlock(held);
    EXPECT_TRUE(AnotherThreadLocks(held, LongEnough()));
    LockFromSomeThreads();
  }));
}

// ---- fork() ----

TEST(TimedMutexBiasTest, AForkedChildLocksWhatWasFree) {
  TimedMutex own, of_another;
  LockAndUnlock(own);
  InAnotherThread([&] { LockAndUnlock(of_another); });
  EXPECT_TRUE(PassesInChild([&] {
    LockAndUnlock(own);
    LockAndUnlock(of_another);
    for (TimedMutex* mutex : {&own, &of_another}) {
      EXPECT_TRUE(AnotherThreadLocks(*mutex, LongEnough()));
      LockAndUnlock(*mutex);
    }
  }));
  LockAndUnlock(own);
  EXPECT_TRUE(AnotherThreadLocks(own, LongEnough()));
}

TEST(TimedMutexBiasTest, AForkedChildKeepsWhatItHoldsAndWaitsForOthers) {
  TimedMutex own, of_another;
  ASSERT_TRUE(Lock(own, Deadline::Passed()));
  std::atomic<bool> held = false, ended = false;
  std::thread other([&] {
    ASSERT_TRUE(Lock(of_another, Deadline::Passed()));
    held = true;
    while (!ended) absl::SleepFor(absl::Milliseconds(1));
    Unlock(of_another);
  });
  while (!held) std::this_thread::yield();
  EXPECT_TRUE(PassesInChild(
      [&] {
        EXPECT_FALSE(AnotherThreadLocks(own, Deadline::Passed()));
        Unlock(own);
        EXPECT_TRUE(AnotherThreadLocks(own, LongEnough()));
        // Held for good: its holder is not in this process.
        EXPECT_FALSE(Lock(of_another, Deadline::Passed()));
        EXPECT_FALSE(Lock(of_another, Deadline::After(absl::Milliseconds(5))));
        EXPECT_FALSE(AnotherThreadLocks(of_another, Deadline::Passed()));
      },
      /*may_have_threads=*/true));
  ended = true;
  other.join();
  Unlock(own);
}

TEST(TimedMutexLockTest, HoldsItUntilItsEnd) {
  TimedMutex mutex;
  {
    const TimedMutexLock lock(&mutex, Deadline::Passed());
    EXPECT_TRUE(lock.held());
    const TimedMutexLock second(&mutex, Deadline::Passed());
    EXPECT_FALSE(second.held());
  }
  const TimedMutexLock lock(&mutex, Deadline::Passed());
  EXPECT_TRUE(lock.held());
}

struct Shared {
  TimedMutex mutex;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(TimedMutexLockTest, OneWithoutADeadlineWaitsAndHoldsIt) {
  constexpr int kThreads = 4, kRounds = 2000;
  Shared shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const TimedMutexLock lock(&shared.mutex);
        const int before = shared.value;
        if (round % 64 == 0) std::this_thread::yield();
        shared.value = before + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const TimedMutexLock lock(&shared.mutex, Deadline::Passed());
  if (!lock.held()) FAIL() << "no other thread holds it";
  EXPECT_EQ(shared.value, kThreads * kRounds);
}

TEST(TimedMutexLockTest, ALockThatTimedOutDoesNotUnlock) {
  TimedMutex mutex;
  const TimedMutexLock lock(&mutex, Deadline::Passed());
  { const TimedMutexLock second(&mutex, Deadline::Passed()); }
  EXPECT_FALSE(Lock(mutex, Deadline::Passed()));
}

}  // namespace
}  // namespace tenon
