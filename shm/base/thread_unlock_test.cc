// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/thread_unlock.h"

#include <thread>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon {
namespace {

struct Shared {
  ThreadMutex mutex;
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

TEST(ThreadUnlockTest, TheMutexIsFreeUntilTheEndOfItsScope) {
  Shared shared;
  {
    const ThreadLock lock(&shared.mutex);
    {
      const ThreadUnlock unlocked(&shared.mutex);
      EXPECT_TRUE(IsFree(&shared.mutex));
    }
    EXPECT_FALSE(IsFree(&shared.mutex));
  }
  EXPECT_TRUE(IsFree(&shared.mutex));
}

TEST(ThreadUnlockTest, AnotherThreadChangesTheDataMeanwhile) {
  Shared shared;
  const ThreadLock lock(&shared.mutex);
  for (int round = 1; round <= 3; ++round) {
    {
      const ThreadUnlock unlocked(&shared.mutex);
      std::thread([&] {
        const ThreadLock locked(&shared.mutex);
        ++shared.value;
      }).join();
    }
    EXPECT_EQ(shared.value, round);
  }
}

TEST(ThreadUnlockTest, AnExceptionLeavesTheMutexHeld) {
  ThreadMutex mutex;
  const ThreadLock lock(&mutex);
  try {
    const ThreadUnlock unlocked(&mutex);
    throw 1;
  } catch (int) {
  }
  EXPECT_FALSE(IsFree(&mutex));
}

}  // namespace
}  // namespace tenon
