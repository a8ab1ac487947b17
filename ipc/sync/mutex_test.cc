// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/mutex.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/ipc/sync/sync_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/kill/two_peers.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using absl::StatusCode::kDeadlineExceeded;
constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;

// ThreadSanitizer reports the refused unlock by another thread as a mistake.
#if defined(__SANITIZE_THREAD__)
constexpr bool kUnderThreadSanitizer = true;
#else
constexpr bool kUnderThreadSanitizer = false;
#endif

class MutexTest : public testing::TestWithParam<PeerMode> {};

INSTANTIATE_TEST_SUITE_P(Modes, MutexTest, AllPeerModes(), PeerModeName);

TEST(MutexTest, LocksAndUnlocks) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  EXPECT_THAT(mutex->IsLocked(), IsOkAndHolds(false));
  EXPECT_EQ(mutex->DebugString(), "a Mutex, free");
  auto guard = mutex->Lock(Deadline::Never());
  ASSERT_THAT(guard, IsOk());
  EXPECT_TRUE(guard->owns());
  EXPECT_FALSE(guard->owner_died());
  EXPECT_THAT(mutex->IsLocked(), IsOkAndHolds(true));
  EXPECT_EQ(mutex->DebugString(),
            "a Mutex, held by thread " + std::to_string(gettid()));
  EXPECT_THAT(guard->Unlock(), IsOk());
  EXPECT_FALSE(guard->owns());
  EXPECT_THAT(mutex->IsLocked(), IsOkAndHolds(false));
}

TEST(MutexTest, UnlockingAFreeOneIsAnError) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  auto guard = mutex->Lock(Deadline::Never());
  ASSERT_THAT(guard, IsOk());
  EXPECT_THAT(guard->Unlock(), IsOk());
  EXPECT_THAT(guard->Unlock(), StatusIs(kPrecondition));
  EXPECT_THAT(guard->MakeConsistent(), StatusIs(kPrecondition));
}

TEST(MutexTest, TheGuardUnlocksAtTheEndOfItsScope) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  {
    auto guard = mutex->Lock(Deadline::Passed());
    ASSERT_THAT(guard, IsOk());
    Mutex::Guard moved = *std::move(guard);
    EXPECT_TRUE(moved.owns());
    EXPECT_THAT(mutex->IsLocked(), IsOkAndHolds(true));
  }
  EXPECT_THAT(mutex->IsLocked(), IsOkAndHolds(false));
}

TEST(MutexTest, LockingTwiceIsAnError) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  const auto guard = mutex->Lock(Deadline::Never());
  ASSERT_THAT(guard, IsOk());
  EXPECT_THAT(mutex->Lock(Deadline::Never()), StatusIs(kPrecondition));
  EXPECT_THAT(mutex->Lock(Deadline::Passed()), StatusIs(kPrecondition));
}

TEST(MutexTest, ARecursiveOneIsLockedThreeTimes) {
  const auto mutex = Mutex::Create({.recursive = true});
  ASSERT_THAT(mutex, IsOk());
  const Mutex other = Another(*mutex);
  const auto is_busy = [&] {
    bool busy = false;
    std::thread([&] { busy = !other.Lock(Deadline::Passed()).ok(); }).join();
    return busy;
  };
  auto first = mutex->Lock(Deadline::Never());
  auto second = mutex->Lock(Deadline::Passed());
  auto third = other.Lock(Deadline::Never());
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  ASSERT_THAT(third, IsOk());
  EXPECT_THAT(first->Unlock(), IsOk());
  EXPECT_TRUE(is_busy());
  EXPECT_THAT(third->Unlock(), IsOk());
  EXPECT_TRUE(is_busy());
  EXPECT_THAT(second->Unlock(), IsOk());
  EXPECT_FALSE(is_busy());
  EXPECT_THAT(second->Unlock(), StatusIs(kPrecondition));
}

TEST_P(MutexTest, ARecursiveOneIsSeenLockedByTheOther) {
  const auto mutex = Mutex::Create({.recursive = true});
  ASSERT_THAT(mutex, IsOk());
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Mutex mine = Another(*mutex);
    if (self.name() == "a") {
      auto outer = mine.Lock(Watchdog());
      auto inner = mine.Lock(Watchdog());
      ASSERT_THAT(outer, IsOk());
      ASSERT_THAT(inner, IsOk());
      EXPECT_THAT(self.Meet("locked twice"), IsOk());
      EXPECT_THAT(self.Await("looked"), IsOk());
      EXPECT_THAT(inner->Unlock(), IsOk());
      EXPECT_THAT(self.Meet("locked once"), IsOk());
      EXPECT_THAT(self.Await("looked again"), IsOk());
      EXPECT_THAT(outer->Unlock(), IsOk());
      self.Step("unlocked");
      return;
    }
    EXPECT_THAT(self.Meet("locked twice"), IsOk());
    EXPECT_THAT(mine.IsLocked(), IsOkAndHolds(true));
    self.Step("looked");
    EXPECT_THAT(self.Meet("locked once"), IsOk());
    EXPECT_THAT(mine.IsLocked(), IsOkAndHolds(true));
    EXPECT_THAT(mine.Lock(Deadline::Passed()), StatusIs(kDeadlineExceeded));
    self.Step("looked again");
    EXPECT_THAT(self.Await("unlocked"), IsOk());
    EXPECT_THAT(mine.IsLocked(), IsOkAndHolds(false));
  }));
}

TEST_P(MutexTest, IsSeenLockedByTheOther) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Mutex mine = Another(*mutex);
    if (self.name() == "a") {
      auto guard = mine.Lock(Watchdog());
      ASSERT_THAT(guard, IsOk());
      EXPECT_THAT(self.Meet("locked"), IsOk());
      EXPECT_THAT(self.Await("looked"), IsOk());
      EXPECT_THAT(guard->Unlock(), IsOk());
      self.Step("unlocked");
      return;
    }
    EXPECT_THAT(self.Meet("locked"), IsOk());
    EXPECT_THAT(mine.IsLocked(), IsOkAndHolds(true));
    EXPECT_THAT(mine.Lock(Deadline::Passed()),
                StatusIs(kDeadlineExceeded, HasSubstr("holds the Mutex")));
    const absl::Time begin = absl::Now();
    EXPECT_THAT(mine.Lock(Shortly()), StatusIs(kDeadlineExceeded));
    EXPECT_GE(absl::Now() - begin, absl::Milliseconds(25));
    self.Step("looked");
    EXPECT_THAT(self.Await("unlocked"), IsOk());
    EXPECT_THAT(mine.IsLocked(), IsOkAndHolds(false));
    EXPECT_THAT(mine.Lock(Deadline::Passed()), IsOk());
  }));
}

// Not atomic: ThreadSanitizer would report a race.
TEST_P(MutexTest, ExcludesTheOther) {
  constexpr int kRounds = 3000;
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  SharedObject<int> count;
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Mutex mine = Another(*mutex);
    EXPECT_THAT(self.Meet("ready"), IsOk());
    for (int i = 0; i < kRounds; ++i) {
      const auto guard = mine.Lock(i % 2 == 0 ? Watchdog() : Deadline::Never());
      ASSERT_THAT(guard, IsOk());
      const int was = *count;
      if (i % 64 == 0) sched_yield();
      *count = was + 1;
    }
  }));
  EXPECT_EQ(*count, 2 * kRounds);
}

TEST_P(MutexTest, AnotherThreadCannotUnlock) {
  if (GetParam() == PeerMode::kProcesses) GTEST_SKIP() << "is about threads";
  if (kUnderThreadSanitizer) GTEST_SKIP() << "would be reported";
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  auto guard = mutex->Lock(Deadline::Never());
  ASSERT_THAT(guard, IsOk());
  std::thread([&] {
    EXPECT_THAT(guard->Unlock(), StatusIs(kPrecondition));
  }).join();
  EXPECT_TRUE(guard->owns());
  EXPECT_THAT(guard->Unlock(), IsOk());
}

// --- Holders that die. ---

// A process that dies with the lock.
void DieWith(const Mutex& mutex) {
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    const Mutex mine = Another(mutex);
    const auto guard = mine.Lock(Watchdog());
    if (guard.ok()) raise(SIGKILL);
  });
  ASSERT_THAT(child, IsOk());
  const auto end = child->Wait(Watchdog());
  ASSERT_THAT(end, IsOk());
  ASSERT_EQ(end->signal, SIGKILL);
}

TEST(MutexDeathTest, TheNextOneIsTold) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  DieWith(*mutex);
  EXPECT_EQ(mutex->DebugString(), "a Mutex, left by a dead holder");
  EXPECT_THAT(mutex->IsLocked(), IsOkAndHolds(false));
  {
    auto guard = mutex->Lock(Deadline::Passed());
    ASSERT_THAT(guard, IsOk());
    EXPECT_TRUE(guard->owner_died());
    EXPECT_THAT(guard->MakeConsistent(), IsOk());
    EXPECT_FALSE(guard->owner_died());
  }
  const auto guard = mutex->Lock(Deadline::Passed());
  ASSERT_THAT(guard, IsOk());
  EXPECT_FALSE(guard->owner_died());
}

TEST(MutexDeathTest, ItIsToldUntilItIsConsistent) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  for (int i = 0; i < 3; ++i) DieWith(*mutex);
  const auto guard = mutex->Lock(Deadline::Passed());
  ASSERT_THAT(guard, IsOk());
  EXPECT_TRUE(guard->owner_died());
}

TEST(MutexDeathTest, UnlockedWithoutRepairItIsLost) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  DieWith(*mutex);
  EXPECT_TRUE(mutex->Lock(Deadline::Passed()).value().owner_died());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(mutex->Lock(Deadline::Never()),
                StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST(MutexDeathTest, ARecursiveOneIsHeldUntilTheLastUnlock) {
  const auto mutex = Mutex::Create({.recursive = true});
  ASSERT_THAT(mutex, IsOk());
  DieWith(*mutex);
  auto outer = mutex->Lock(Deadline::Passed());
  auto inner = mutex->Lock(Deadline::Passed());
  ASSERT_THAT(outer, IsOk());
  ASSERT_THAT(inner, IsOk());
  EXPECT_TRUE(outer->owner_died());
  EXPECT_THAT(inner->Unlock(), IsOk());
  std::thread([&] {
    EXPECT_THAT(mutex->Lock(Deadline::Passed()), StatusIs(kDeadlineExceeded));
  }).join();
  EXPECT_THAT(outer->MakeConsistent(), IsOk());
  EXPECT_THAT(outer->Unlock(), IsOk());
  EXPECT_THAT(mutex->Lock(Deadline::Passed()), IsOk());
}

// Also with a passed deadline, which leaves the mutex unchanged.
TEST(MutexDeathTest, TheLossIsReportedWhateverTheDeadline) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  DieWith(*mutex);
  EXPECT_TRUE(mutex->Lock(Deadline::Passed()).value().owner_died());
  const auto look = [&] {
    for (const Deadline deadline :
         {Deadline::Passed(), Shortly(), Deadline::Passed(), Shortly()}) {
      EXPECT_THAT(mutex->Lock(deadline), StatusIs(absl::StatusCode::kDataLoss));
    }
  };
  look();
  std::thread(look).join();
  EXPECT_THAT(mutex->IsLocked(), IsOkAndHolds(false));
}

TEST(MutexDeathTest, AWaiterGetsItAtOnce) {
  const auto mutex = Mutex::Create();
  const auto locked = Event::Create();
  ASSERT_THAT(mutex, IsOk());
  ASSERT_THAT(locked, IsOk());
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    const Mutex mine = Another(*mutex);
    const auto guard = mine.Lock(Watchdog());
    EXPECT_THAT(Another(*locked).Set(), IsOk());
    for (;;) pause();
  });
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(locked->Wait(Watchdog()), IsOk());
  EXPECT_THAT(mutex->Lock(Shortly()), StatusIs(kDeadlineExceeded));
  // Stopped is not dead.
  ASSERT_THAT(child->pid_fd().SendSignal(SIGSTOP), IsOk());
  EXPECT_THAT(mutex->Lock(Shortly()), StatusIs(kDeadlineExceeded));
  std::thread killer([&] {
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_THAT(child->pid_fd().SendSignal(SIGKILL), IsOk());
  });
  const auto guard = mutex->Lock(Watchdog());
  killer.join();
  ASSERT_THAT(guard, IsOk());
  EXPECT_TRUE(guard->owner_died());
}

TEST(MutexDeathTest, AThreadThatEndsIsAHolderThatDied) {
  if (kUnderThreadSanitizer) GTEST_SKIP() << "would be reported";
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  std::optional<Mutex::Guard> kept;
  std::thread([&] { kept.emplace(*mutex->Lock(Deadline::Never())); }).join();
  {
    auto guard = mutex->Lock(Deadline::Passed());
    ASSERT_THAT(guard, IsOk());
    EXPECT_TRUE(guard->owner_died());
    EXPECT_THAT(guard->MakeConsistent(), IsOk());
  }
  kept.reset();  // On another thread it has no effect.
  EXPECT_THAT(mutex->Lock(Deadline::Passed()), IsOk());
}

// --- Handles. ---

class MutexStrategyTest : public testing::TestWithParam<SharingStrategy> {};

TEST_P(MutexStrategyTest, IsOneForAllProcesses) {
  const std::string prefix = UniqueTestPrefix();
  {
    const auto mutex = Mutex::Create(
        {.segment = {.strategy = GetParam(), .name_prefix = prefix}});
    ASSERT_THAT(mutex, IsOk());
    const auto guard = mutex->Lock(Deadline::Never());
    ASSERT_THAT(guard, IsOk());
    EXPECT_TRUE(PassesInChild([&] {
      const auto same =
          GetParam() == SharingStrategy::kFileSystem
              ? Mutex::Open(mutex->name())
              : Mutex::Adopt(UniqueFd(fcntl(mutex->fd(), F_DUPFD, 0)));
      ASSERT_THAT(same, IsOk());
      EXPECT_THAT(same->IsLocked(), IsOkAndHolds(true));
      EXPECT_THAT(same->Lock(Deadline::Passed()), StatusIs(kDeadlineExceeded));
    }));
  }
  EXPECT_THAT(ListShmNames(prefix), IsOkAndHolds(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Strategies, MutexStrategyTest,
                         testing::ValuesIn(AllSharingStrategies().begin(),
                                           AllSharingStrategies().end()));

TEST(MutexTest, IsInertInAForkedChild) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  auto guard = mutex->Lock(Deadline::Never());
  ASSERT_THAT(guard, IsOk());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(mutex->Lock(Deadline::Passed()), StatusIs(kPrecondition));
    EXPECT_THAT(mutex->IsLocked(), StatusIs(kPrecondition));
    EXPECT_THAT(guard->Unlock(), StatusIs(kPrecondition));
    const Mutex::Guard dropped = *std::move(guard);
  }));
  EXPECT_THAT(mutex->IsLocked(), IsOkAndHolds(true));
}

TEST(MutexTest, AnythingElseIsNotAdopted) {
  const auto event = Event::Create();
  ASSERT_THAT(event, IsOk());
  EXPECT_THAT(Mutex::Adopt(UniqueFd(fcntl(event->fd(), F_DUPFD_CLOEXEC, 0))),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Mutex::Adopt(UniqueFd()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// Thread numbers mean other threads there.
TEST(MutexTest, IsRefusedInAnotherPidNamespace) {
  const auto mutex = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  EXPECT_TRUE(PassesInChild([&] {
    if (unshare(CLONE_NEWPID) != 0) GTEST_SKIP() << "needs CAP_SYS_ADMIN";
    EXPECT_TRUE(PassesInChild([&] {
      EXPECT_THAT(
          Mutex::Adopt(UniqueFd(fcntl(mutex->fd(), F_DUPFD_CLOEXEC, 0))),
          StatusIs(kPrecondition, HasSubstr("another pid namespace")));
      EXPECT_THAT(Mutex::Create(), IsOk());
    }));
  }));
}

}  // namespace
}  // namespace tenon
