// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/internal/robust_word.h"

#include <signal.h>
#include <sys/syscall.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <thread>

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

using Word = RobustWord::Word;

TEST(RobustWordTest, OneThreadHoldsIt) {
  SharedObject<Word> word;
  EXPECT_FALSE(RobustWord::IsLocked(*word));
  ASSERT_TRUE(RobustWord::TryLock(*word));
  EXPECT_TRUE(RobustWord::IsLocked(*word));
  std::thread([&] { EXPECT_FALSE(RobustWord::TryLock(*word)); }).join();
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_FALSE(RobustWord::TryLock(*word));
    EXPECT_TRUE(RobustWord::IsLocked(*word));
  }));
  RobustWord::Unlock(*word);
  EXPECT_FALSE(RobustWord::IsLocked(*word));
  std::thread([&] {
    EXPECT_TRUE(RobustWord::TryLock(*word));
    RobustWord::Unlock(*word);
  }).join();
  EXPECT_TRUE(RobustWord::TryLock(*word));
  RobustWord::Unlock(*word);
}

TEST(RobustWordTest, TheDeathOfItsHolderFreesIt) {
  SharedObject<Word> word;
  for (int i = 0; i < 3; ++i) {
    auto child = ForkedChild::Fork({}, [&](const Reporter&) {
      if (RobustWord::TryLock(*word)) raise(SIGKILL);
    });
    ASSERT_THAT(child, IsOk());
    const auto end = child->Wait(Deadline::After(absl::Seconds(20)));
    ASSERT_THAT(end, IsOk());
    EXPECT_EQ(end->signal, SIGKILL);
    EXPECT_FALSE(RobustWord::IsLocked(*word));
  }
  // Also of a thread.
  std::thread([&] { EXPECT_TRUE(RobustWord::TryLock(*word)); }).join();
  EXPECT_TRUE(RobustWord::TryLock(*word));
  RobustWord::Unlock(*word);
}

// A process that has failed to acquire it, or has released it, is not taken for
// a holder.
TEST(RobustWordTest, TheDeathOfAnotherProcessDoesNot) {
  SharedObject<Word> word, other;
  ASSERT_TRUE(RobustWord::TryLock(*word));
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    EXPECT_FALSE(RobustWord::TryLock(*word));
    EXPECT_TRUE(RobustWord::TryLock(*other));
    RobustWord::Unlock(*other);
    raise(SIGKILL);
  });
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(child->Wait(Deadline::After(absl::Seconds(20))), IsOk());
  EXPECT_TRUE(RobustWord::IsLocked(*word));
  EXPECT_FALSE(RobustWord::IsLocked(*other));
  RobustWord::Unlock(*word);
}

TEST(RobustWordTest, ExcludesWhereTheKernelDoesNotTell) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(
        FailSystemCall({.number = SYS_get_robust_list, .error = EPERM}));
    Word word{0};
    ASSERT_TRUE(RobustWord::TryLock(word));
    EXPECT_FALSE(RobustWord::TryLock(word));
    RobustWord::Unlock(word);
    EXPECT_TRUE(RobustWord::TryLock(word));
  }));
}

TEST(RobustWordTest, WildWordsAreLockedOrFree) {
  for (const uint32_t wild : {1u, 0x3fffffffu, 0x40000000u, 0x80000000u, ~0u}) {
    Word word{wild};
    const bool locked = RobustWord::IsLocked(word);
    EXPECT_EQ(RobustWord::TryLock(word), !locked);
    if (!locked) RobustWord::Unlock(word);
  }
}

}  // namespace
}  // namespace tenon
