// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/condition.h"

#include <fcntl.h>
#include <signal.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/sync/sync_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/kill/two_peers.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using absl::StatusCode::kDeadlineExceeded;
using absl::StatusCode::kFailedPrecondition;

class ConditionTest : public testing::TestWithParam<PeerMode> {
 protected:
  void SetUp() override {
    auto mutex = Mutex::Create();
    auto condition = Condition::Create();
    ASSERT_THAT(mutex, IsOk());
    ASSERT_THAT(condition, IsOk());
    mutex_.emplace(*std::move(mutex));
    condition_.emplace(*std::move(condition));
  }

  Mutex::Guard Lock() { return mutex_->Lock(Watchdog()).value(); }

  size_t CountWaiters() {
    const Mutex::Guard guard = Lock();
    return condition_->CountWaiters(guard).value();
  }

  // Waits until there are `count` waiters, threads or processes.
  void AwaitWaiters(size_t count) {
    const Deadline deadline = Watchdog();
    while (CountWaiters() != count) {
      ASSERT_FALSE(deadline.has_passed()) << CountWaiters() << " wait";
      absl::SleepFor(absl::Milliseconds(1));
    }
  }

  // A process that waits, and increments the counter after its notification.
  ForkedChild Sleeper() {
    return ForkedChild::Fork({.name = "sleeper"},
                             [this](const Reporter&) {
                               const Mutex mutex = Another(*mutex_);
                               const Condition mine = Another(*condition_);
                               auto guard = mutex.Lock(Watchdog());
                               ASSERT_THAT(guard, IsOk());
                               EXPECT_THAT(mine.Wait(*guard, Watchdog()),
                                           IsOk());
                               EXPECT_FALSE(guard->owner_died());
                               ++*woken_;
                             })
        .value();
  }

  void AwaitWoken(int count) {
    const Deadline deadline = Watchdog();
    while (woken_->load() < count) {
      ASSERT_FALSE(deadline.has_passed()) << *woken_ << " have been woken";
      absl::SleepFor(absl::Milliseconds(1));
    }
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(woken_->load(), count);
  }

  size_t Notify(size_t count) {
    const Mutex::Guard guard = Lock();
    return condition_->Notify(guard, count).value();
  }

  std::optional<Mutex> mutex_;
  std::optional<Condition> condition_;
  SharedObject<std::atomic<int>> woken_;
};

INSTANTIATE_TEST_SUITE_P(Modes, ConditionTest, AllPeerModes(), PeerModeName);

using ConditionOnceTest = ConditionTest;
INSTANTIATE_TEST_SUITE_P(All, ConditionOnceTest,
                         testing::Values(PeerMode::kProcesses), PeerModeName);

TEST_P(ConditionOnceTest, NotifyWakesOneByOne) {
  ForkedChild process = Sleeper();
  std::thread thread([&] {
    Mutex::Guard guard = Lock();
    EXPECT_THAT(condition_->Wait(guard, Watchdog()), IsOk());
    ++*woken_;
  });
  AwaitWaiters(2);
  EXPECT_EQ(woken_->load(), 0);
  EXPECT_EQ(Notify(1), 1u);
  AwaitWoken(1);
  EXPECT_EQ(Notify(1), 1u);
  AwaitWoken(2);
  EXPECT_EQ(CountWaiters(), 0u);
  EXPECT_EQ(Notify(1), 0u);
  thread.join();
  EXPECT_TRUE(process.EndsWell());
}

TEST_P(ConditionOnceTest, NotifyNWakesSoMany) {
  std::vector<ForkedChild> children;
  for (int i = 0; i < 6; ++i) children.push_back(Sleeper());
  AwaitWaiters(6);
  EXPECT_EQ(Notify(2), 2u);
  AwaitWoken(2);
  EXPECT_EQ(Notify(4), 4u);
  AwaitWoken(6);
  EXPECT_EQ(Notify(3), 0u);
  AwaitWoken(6);
  EXPECT_EQ(CountWaiters(), 0u);
  for (ForkedChild& child : children) EXPECT_TRUE(child.EndsWell());
}

// First six waiters with short deadlines: they leave nothing behind.
TEST_P(ConditionOnceTest, NotifyAllWakesAll) {
  std::vector<std::thread> late;
  for (int i = 0; i < 6; ++i) {
    late.emplace_back([this] {
      Mutex::Guard guard = Lock();
      EXPECT_THAT(condition_->Wait(guard, Shortly()),
                  StatusIs(kDeadlineExceeded));
      EXPECT_TRUE(guard.owns());
    });
  }
  for (std::thread& thread : late) thread.join();
  EXPECT_EQ(CountWaiters(), 0u);
  std::vector<ForkedChild> children;
  for (int i = 0; i < 6; ++i) children.push_back(Sleeper());
  AwaitWaiters(6);
  {
    const Mutex::Guard guard = Lock();
    EXPECT_THAT(condition_->NotifyAll(guard), IsOkAndHolds(6u));
  }
  AwaitWoken(6);
  EXPECT_EQ(CountWaiters(), 0u);
  for (ForkedChild& child : children) EXPECT_TRUE(child.EndsWell());
}

TEST_P(ConditionOnceTest, WaitEndsAtItsDeadline) {
  Mutex::Guard guard = Lock();
  EXPECT_THAT(condition_->Wait(guard, Deadline::Passed()),
              StatusIs(kDeadlineExceeded));
  const absl::Time begin = absl::Now();
  EXPECT_THAT(condition_->Wait(guard, Shortly()), StatusIs(kDeadlineExceeded));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(25));
  EXPECT_TRUE(guard.owns());
  EXPECT_THAT(mutex_->IsLocked(), IsOkAndHolds(true));
}

TEST_P(ConditionTest, WaitForSeesFourSteps) {
  SharedObject<int> value;
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Mutex mutex = Another(*mutex_);
    const Condition condition = Another(*condition_);
    auto guard = mutex.Lock(Watchdog());
    ASSERT_THAT(guard, IsOk());
    if (self.name() == "a") {
      EXPECT_THAT(condition.WaitFor(
                      *guard, [&] { return *value == 4; }, Watchdog()),
                  IsOk());
      EXPECT_EQ(*value, 4);
      return;
    }
    for (int i = 0; i < 4; ++i) {
      *value = *value + 1;
      EXPECT_THAT(condition.Notify(*guard), IsOk());
      ASSERT_THAT(guard->Unlock(), IsOk());
      guard = mutex.Lock(Watchdog());
      ASSERT_THAT(guard, IsOk());
    }
  }));
}

TEST_P(ConditionTest, WaitForEndsAtItsDeadline) {
  SharedObject<int> value;
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Mutex mutex = Another(*mutex_);
    const Condition condition = Another(*condition_);
    auto guard = mutex.Lock(Watchdog());
    ASSERT_THAT(guard, IsOk());
    if (self.name() == "a") {
      EXPECT_THAT(condition.WaitFor(
                      *guard, [&] { return *value == 4; },
                      Deadline::After(absl::Milliseconds(100))),
                  StatusIs(kDeadlineExceeded));
      EXPECT_TRUE(guard->owns());
      return;
    }
    for (int i = 0; i < 3; ++i) {
      *value = *value + 1;
      EXPECT_THAT(condition.NotifyAll(*guard), IsOk());
    }
  }));
}

// A queue of one item between two threads: a lost notification stops it.
TEST_P(ConditionTest, HandsOverOneByOne) {
  constexpr int kRounds = 1000;
  SharedObject<int> item;
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    const Mutex mutex = Another(*mutex_);
    const Condition condition = Another(*condition_);
    const bool giver = self.name() == "a";
    for (int i = 1; i <= kRounds; ++i) {
      auto guard = mutex.Lock(Watchdog());
      ASSERT_THAT(guard, IsOk());
      ASSERT_THAT(
          condition.WaitFor(
              *guard, [&] { return *item == (giver ? 0 : i); }, Watchdog()),
          IsOk());
      *item = giver ? i : 0;
      EXPECT_THAT(condition.Notify(*guard), IsOk());
    }
  }));
}

TEST_P(ConditionOnceTest, WrongUseIsAnError) {
  Mutex::Guard guard = Lock();
  EXPECT_THAT(guard.Unlock(), IsOk());
  EXPECT_THAT(condition_->Wait(guard, Deadline::Passed()),
              StatusIs(kFailedPrecondition));
  EXPECT_THAT(condition_->Notify(guard), StatusIs(kFailedPrecondition));
  EXPECT_THAT(condition_->CountWaiters(guard), StatusIs(kFailedPrecondition));
  const auto recursive = Mutex::Create({.recursive = true});
  ASSERT_THAT(recursive, IsOk());
  auto nested = recursive->Lock(Deadline::Never());
  ASSERT_THAT(nested, IsOk());
  EXPECT_THAT(condition_->Wait(*nested, Deadline::Passed()),
              StatusIs(kFailedPrecondition));
  const auto event = Event::Create();
  ASSERT_THAT(event, IsOk());
  EXPECT_THAT(
      Condition::Adopt(UniqueFd(fcntl(event->fd(), F_DUPFD_CLOEXEC, 0))),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_P(ConditionOnceTest, IsInertInAForkedChild) {
  EXPECT_TRUE(PassesInChild([&] {
    const Mutex mutex = Another(*mutex_);
    auto guard = mutex.Lock(Deadline::Never());
    ASSERT_THAT(guard, IsOk());
    EXPECT_THAT(condition_->Wait(*guard, Deadline::Passed()),
                StatusIs(kFailedPrecondition));
    EXPECT_THAT(condition_->Notify(*guard), StatusIs(kFailedPrecondition));
  }));
}

// --- Waiters and holders that die. ---

TEST_P(ConditionOnceTest, TheDeadAreNotNotified) {
  ForkedChild first = Sleeper();
  AwaitWaiters(1);
  ForkedChild second = Sleeper();
  AwaitWaiters(2);
  first.Kill();
  EXPECT_EQ(CountWaiters(), 1u);
  EXPECT_EQ(Notify(1), 1u);
  AwaitWoken(1);
  EXPECT_TRUE(second.EndsWell());
}

// A notified waiter dies before it has the mutex again.
TEST_P(ConditionOnceTest, ADeadWaitersNotificationGoesToOthers) {
  ForkedChild first = Sleeper();
  AwaitWaiters(1);
  ForkedChild second = Sleeper();
  AwaitWaiters(2);
  {
    const Mutex::Guard guard = Lock();
    EXPECT_THAT(condition_->Notify(guard), IsOkAndHolds(1u));
    absl::SleepFor(absl::Milliseconds(20));
    first.Kill();
  }
  AwaitWoken(1);
  EXPECT_TRUE(second.EndsWell());
}

// Without another waiter at that time the notification is dropped.
TEST_P(ConditionOnceTest, ADeadWaitersNotificationIsNotKept) {
  ForkedChild first = Sleeper();
  AwaitWaiters(1);
  {
    const Mutex::Guard guard = Lock();
    EXPECT_THAT(condition_->Notify(guard), IsOkAndHolds(1u));
    first.Kill();
  }
  Mutex::Guard guard = Lock();
  EXPECT_THAT(condition_->Wait(guard, Deadline::After(absl::Milliseconds(250))),
              StatusIs(kDeadlineExceeded));
}

TEST_P(ConditionOnceTest, WaitersLearnOfAHolderThatDies) {
  Mutex::Guard guard = Lock();
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    const Mutex mutex = Another(*mutex_);
    const auto own = mutex.Lock(Watchdog());
    if (own.ok()) raise(SIGKILL);
  });
  ASSERT_THAT(child, IsOk());
  EXPECT_THAT(condition_->WaitFor(
                  guard, [] { return false; }, Watchdog()),
              StatusIs(absl::StatusCode::kAborted));
  ASSERT_TRUE(guard.owner_died());
  EXPECT_THAT(condition_->Wait(guard, Deadline::Passed()),
              StatusIs(kFailedPrecondition));
  EXPECT_THAT(guard.MakeConsistent(), IsOk());
  EXPECT_THAT(condition_->Wait(guard, Deadline::Passed()),
              StatusIs(kDeadlineExceeded));
}

// Three wait without a deadline; one holder dies, and the next one unlocks
// without a repair before any waiter checks.
TEST_P(ConditionOnceTest, WaitersLearnThatTheMutexIsLost) {
  std::vector<ForkedChild> waiters;
  for (int i = 0; i < 3; ++i) {
    auto waiter = ForkedChild::Fork({.name = "waiter"}, [&](const Reporter&) {
      const Mutex mutex = Another(*mutex_);
      auto guard = mutex.Lock(Watchdog());
      ASSERT_THAT(guard, IsOk());
      EXPECT_THAT(Another(*condition_).Wait(*guard, Deadline::Never()),
                  StatusIs(absl::StatusCode::kDataLoss));
      EXPECT_FALSE(guard->owns());
      ++*woken_;
    });
    ASSERT_THAT(waiter, IsOk());
    waiters.push_back(*std::move(waiter));
  }
  AwaitWaiters(3);
  for (const ForkedChild& waiter : waiters) {
    ASSERT_THAT(waiter.pid_fd().SendSignal(SIGSTOP), IsOk());
  }
  absl::SleepFor(absl::Milliseconds(20));
  auto holder = ForkedChild::Fork({}, [&](const Reporter&) {
    const Mutex mutex = Another(*mutex_);
    const auto guard = mutex.Lock(Watchdog());
    if (guard.ok()) raise(SIGKILL);
  });
  ASSERT_THAT(holder, IsOk());
  ASSERT_THAT(holder->Wait(Watchdog()), IsOk());
  EXPECT_TRUE(Lock().owner_died());
  for (const ForkedChild& waiter : waiters) {
    ASSERT_THAT(waiter.pid_fd().SendSignal(SIGCONT), IsOk());
  }
  for (ForkedChild& waiter : waiters) EXPECT_TRUE(waiter.EndsWell());
  EXPECT_EQ(woken_->load(), 3) << "waiters were told";
}

// More than there are slots, one after the other.
TEST_P(ConditionOnceTest, DeadWaitersDoNotFillIt) {
  for (size_t i = 0; i < Condition::kMaxWaiters + 10; ++i) {
    ForkedChild sleeper = Sleeper();
    AwaitWaiters(1);
    sleeper.Kill();
  }
  EXPECT_EQ(CountWaiters(), 0u);
}

}  // namespace
}  // namespace tenon
