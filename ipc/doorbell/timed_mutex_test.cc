// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/doorbell/timed_mutex.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"

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
