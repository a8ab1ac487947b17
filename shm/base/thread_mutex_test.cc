// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/thread_mutex.h"

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tenon {
namespace {

using std::chrono::steady_clock;

struct Shared {
  ThreadMutex mutex;
  ThreadCondition changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

// Whether another thread acquires the mutex.
bool IsFree(ThreadMutex* mutex) {
  bool is_free = false;
  std::thread([&] {
    if (!mutex->TryLock()) return;
    is_free = true;
    mutex->Unlock();
  }).join();
  return is_free;
}

TEST(ThreadMutexTest, ThreadsExcludeEachOther) {
  constexpr int kThreads = 4, kRounds = 2000;
  Shared shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const ThreadLock lock(&shared.mutex);
        const int before = shared.value;
        if (round % 64 == 0) std::this_thread::yield();
        shared.value = before + 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const ThreadLock lock(&shared.mutex);
  EXPECT_EQ(shared.value, kThreads * kRounds);
}

TEST(ThreadMutexTest, TryLockFailsWhileAnotherThreadHoldsIt) {
  ThreadMutex mutex;
  EXPECT_TRUE(IsFree(&mutex));
  {
    const ThreadLock lock(&mutex);
    EXPECT_FALSE(IsFree(&mutex));
  }
  EXPECT_TRUE(IsFree(&mutex));
}

TEST(ThreadMutexTest, AnAdoptedLockIsReleased) {
  ThreadMutex mutex;
  if (!mutex.TryLock()) FAIL() << "no other thread holds it";
  {
    const ThreadLock lock(&mutex, std::adopt_lock);
    EXPECT_FALSE(IsFree(&mutex));
  }
  EXPECT_TRUE(IsFree(&mutex));
}

TEST(ThreadMutexTest, AWaiterReleasesTheMutexAndHoldsItAfterwards) {
  Shared shared;
  std::thread notifier([&] {
    const ThreadLock lock(&shared.mutex);
    shared.value = 1;
    shared.changed.NotifyAll();
  });
  {
    const ThreadLock lock(&shared.mutex);
    while (shared.value == 0) shared.changed.Wait(&shared.mutex);
    EXPECT_FALSE(IsFree(&shared.mutex));
  }
  notifier.join();
  EXPECT_TRUE(IsFree(&shared.mutex));
}

TEST(ThreadMutexTest, ANotificationEndsAWaitBeforeItsDeadline) {
  const auto deadline = steady_clock::now() + std::chrono::minutes(1);
  Shared shared;
  std::thread notifier([&] {
    const ThreadLock lock(&shared.mutex);
    shared.value = 1;
    shared.changed.NotifyOne();
  });
  {
    const ThreadLock lock(&shared.mutex);
    while (shared.value == 0) shared.changed.WaitUntil(&shared.mutex, deadline);
  }
  notifier.join();
  EXPECT_LT(steady_clock::now(), deadline);
}

TEST(ThreadMutexTest, ANotificationEndsAWaitWithoutADeadline) {
  Shared shared;
  std::thread notifier([&] {
    for (int value = 1; value <= 2; ++value) {
      const ThreadLock lock(&shared.mutex);
      shared.value = value;
      shared.changed.NotifyAll();
    }
  });
  {
    const ThreadLock lock(&shared.mutex);
    while (shared.value == 0) {
      EXPECT_TRUE(shared.changed.WaitUntil(&shared.mutex,
                                           steady_clock::time_point::max()));
    }
    while (shared.value == 1) {
      shared.changed.WaitFor(&shared.mutex, absl::InfiniteDuration());
    }
  }
  notifier.join();
}

TEST(ThreadMutexTest, AWaiterHoldsTheMutexAfterItsDeadline) {
  Shared shared;
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(1);
  {
    const ThreadLock lock(&shared.mutex);
    while (shared.changed.WaitUntil(&shared.mutex, deadline)) {
    }
    EXPECT_GE(steady_clock::now(), deadline);
    EXPECT_FALSE(IsFree(&shared.mutex));
    shared.changed.WaitFor(&shared.mutex, absl::ZeroDuration());
    EXPECT_FALSE(IsFree(&shared.mutex));
  }
  EXPECT_TRUE(IsFree(&shared.mutex));
}

}  // namespace
}  // namespace tenon
