// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Threads that hold as many robust locks as the kernel releases when a thread
// dies (ROBUST_LIST_LIMIT), and one more.

#include <errno.h>
#include <signal.h>

#include <array>
#include <cstddef>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/barrier.h"
#include "tenon/ipc/sync/condition.h"
#include "tenon/ipc/sync/internal/robust_mutex.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/sync/sync_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kLimit = 2048;
using absl::StatusCode::kDeadlineExceeded;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

// Locks that processes share, more than one thread may hold.
struct Locks {
  std::array<RobustMutex, 2 * kLimit> all;
  size_t acquired = 0;
};

class HeldLocksTest : public testing::Test {
 protected:
  void SetUp() override {
    for (RobustMutex& lock : locks_->all) {
      ASSERT_THAT(lock.Init(RobustMutex::Kind::kErrorCheck), IsOk());
    }
  }

  // Acquires locks from `first` on until one is refused, at most `count`;
  // returns how many.
  size_t Acquire(size_t count, size_t first = 0) {
    for (size_t i = 0; i < count; ++i) {
      const int error = locks_->all[first + i].Lock(Deadline::Passed());
      if (error != 0 && error != EOWNERDEAD) return i;
    }
    return count;
  }

  void Release(size_t count, size_t first = 0) {
    for (size_t i = count; i-- > 0;) {
      EXPECT_EQ(locks_->all[first + i].Unlock(), 0) << i;
    }
  }

  // Acquires all but `left` of the locks that one thread may hold.
  void AcquireAllBut(size_t left) {
    ASSERT_EQ(Acquire(kLimit - left), kLimit - left);
  }

  SharedObject<Locks> locks_;
};

// A matcher for the error of `call` at the limit.
auto IsRefused(const char* call) {
  return StatusIs(kExhausted,
                  AllOf(HasSubstr(call), HasSubstr("2048"),
                        HasSubstr("ROBUST_LIST_LIMIT"), HasSubstr("release")));
}

TEST_F(HeldLocksTest, AllOfADeadThreadAreFree) {
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    locks_->acquired = Acquire(2200);
    raise(SIGKILL);
  });
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(child->Wait(Watchdog()), IsOk());
  size_t stuck = 0;
  for (size_t i = 0; i < locks_->acquired; ++i) {
    RobustMutex& lock = locks_->all[i];
    const int error = lock.TryLock();
    stuck += error == EBUSY;
    if (error == EBUSY) continue;
    EXPECT_EQ(error, EOWNERDEAD) << i;
    EXPECT_EQ(lock.MakeConsistent(), 0);
    EXPECT_EQ(lock.Unlock(), 0);
  }
  EXPECT_EQ(stuck, 0u) << "stay locked, of " << locks_->acquired
                       << " locks of a thread that was killed";
  EXPECT_EQ(locks_->acquired, kLimit);
}

TEST_F(HeldLocksTest, OneMoreMutexIsRefused) {
  const auto last = Mutex::Create();
  const auto refused = Mutex::Create();
  ASSERT_THAT(last, IsOk());
  ASSERT_THAT(refused, IsOk());
  AcquireAllBut(1);
  auto guard = last->Lock(Deadline::Never());
  ASSERT_THAT(guard, IsOk());
  for (const Deadline deadline :
       {Deadline::Never(), Watchdog(), Deadline::Passed()}) {
    EXPECT_THAT(refused->Lock(deadline), IsRefused("Mutex::Lock()"));
  }
  EXPECT_THAT(refused->IsLocked(), IsOkAndHolds(false));
  // Another thread holds none.
  std::thread([&] {
    EXPECT_THAT(refused->Lock(Deadline::Passed()), IsOk());
  }).join();
  // A lock that this thread holds already is refused for that reason.
  EXPECT_THAT(last->Lock(Deadline::Never()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(guard->Unlock(), IsOk());
  EXPECT_THAT(refused->Lock(Deadline::Never()), IsOk());
  Release(kLimit - 1);
}

TEST_F(HeldLocksTest, ARecursiveMutexCountsOnce) {
  const auto mutex = Mutex::Create({.recursive = true});
  const auto refused = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  ASSERT_THAT(refused, IsOk());
  AcquireAllBut(1);
  auto first = mutex->Lock(Deadline::Never());
  ASSERT_THAT(first, IsOk());
  {
    const auto second = mutex->Lock(Deadline::Never());
    const auto third = mutex->Lock(Deadline::Passed());
    EXPECT_THAT(second, IsOk());
    EXPECT_THAT(third, IsOk());
  }
  EXPECT_THAT(refused->Lock(Deadline::Passed()), IsRefused("Mutex::Lock()"));
  EXPECT_THAT(first->Unlock(), IsOk());
  EXPECT_THAT(refused->Lock(Deadline::Passed()), IsOk());
  Release(kLimit - 1);
}

// However locks are acquired and released, the thread holds none afterwards.
TEST_F(HeldLocksTest, EveryWayToReleaseCounts) {
  const auto mutex = Mutex::Create();
  const auto busy = Mutex::Create();
  const auto lost = Mutex::Create();
  ASSERT_THAT(mutex, IsOk());
  ASSERT_THAT(busy, IsOk());
  ASSERT_THAT(lost, IsOk());
  const auto die_with = [](const Mutex& held) {
    std::thread([&] {
      // Not destroyed: a guard that its thread never unlocks.
      alignas(Mutex::Guard) static thread_local std::array<std::byte,
                                                           sizeof(Mutex::Guard)>
          memory;
      new (memory.data()) Mutex::Guard(*held.Lock(Deadline::Never()));
    }).join();
  };
  die_with(*lost);
  EXPECT_TRUE(lost->Lock(Deadline::Passed())->owner_died());
  std::optional<Mutex::Guard> kept(*mutex->Lock(Deadline::Never()));
  std::thread([&] {
    const auto guard = busy->Lock(Deadline::Never());
    EXPECT_FALSE(kept->Unlock().ok());  // Another thread's.
    for (size_t i = 0; i < 2 * kLimit; ++i) {
      ASSERT_THAT(mutex->Lock(Deadline::Passed()), StatusIs(kDeadlineExceeded));
      ASSERT_THAT(lost->Lock(Deadline::Passed()),
                  StatusIs(absl::StatusCode::kDataLoss));
      ASSERT_FALSE(busy->Lock(Deadline::Passed()).ok());
    }
    EXPECT_EQ(Acquire(kLimit), kLimit - 1);
    Release(kLimit - 1);
  }).join();
  kept.reset();
  for (size_t i = 0; i < kLimit + 10; ++i) {
    Mutex::Guard guard = *mutex->Lock(Deadline::Never());
    Mutex::Guard moved = std::move(guard);
    guard = std::move(moved);
  }
  for (size_t i = 0; i < 100; ++i) {
    die_with(*mutex);
    auto guard = mutex->Lock(Deadline::Passed());
    ASSERT_THAT(guard, IsOk());
    ASSERT_TRUE(guard->owner_died());
    EXPECT_THAT(guard->MakeConsistent(), IsOk());
  }
  EXPECT_EQ(Acquire(kLimit + 1), kLimit);
  Release(kLimit);
}

TEST_F(HeldLocksTest, AForkedChildStartsAtNone) {
  AcquireAllBut(0);
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    locks_->acquired = Acquire(kLimit, kLimit);
    raise(SIGKILL);
  });
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(child->Wait(Watchdog()), IsOk());
  EXPECT_EQ(locks_->acquired, kLimit);
  Release(kLimit);
  EXPECT_EQ(Acquire(kLimit, kLimit), kLimit);
  Release(kLimit, kLimit);
}

TEST_F(HeldLocksTest, ASlotOfAConditionCounts) {
  const auto mutex = Mutex::Create();
  const auto condition = Condition::Create();
  ASSERT_THAT(mutex, IsOk());
  ASSERT_THAT(condition, IsOk());
  AcquireAllBut(2);
  auto guard = mutex->Lock(Deadline::Never());
  ASSERT_THAT(guard, IsOk());
  EXPECT_THAT(condition->Wait(*guard, Shortly()), StatusIs(kDeadlineExceeded));
  RobustMutex& one_more = locks_->all[kLimit];
  ASSERT_EQ(one_more.TryLock(), 0);
  EXPECT_THAT(condition->Wait(*guard, Shortly()),
              IsRefused("Condition::Wait()"));
  EXPECT_TRUE(guard->owns());
  EXPECT_THAT(condition->CountWaiters(*guard), IsOkAndHolds(0u));
  EXPECT_EQ(one_more.Unlock(), 0);
  EXPECT_THAT(condition->Wait(*guard, Shortly()), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(guard->Unlock(), IsOk());
  Release(kLimit - 2);
}

// A dead waiter's notification, too, goes to another waiter: a thread at the
// limit passes it on, once.
TEST_F(HeldLocksTest, DeadWaitersAreForgottenAtTheLimit) {
  const auto mutex = Mutex::Create();
  const auto condition = Condition::Create();
  ASSERT_THAT(mutex, IsOk());
  ASSERT_THAT(condition, IsOk());
  const auto wait = [&](const Reporter&) {
    const Mutex mine = Another(*mutex);
    auto guard = mine.Lock(Watchdog());
    ASSERT_THAT(guard, IsOk());
    EXPECT_THAT(Another(*condition).Wait(*guard, Watchdog()), IsOk());
  };
  const auto await_waiters = [&](size_t count) {
    const Deadline deadline = Watchdog();
    for (;;) {
      const auto guard = mutex->Lock(Watchdog());
      ASSERT_THAT(guard, IsOk());
      if (condition->CountWaiters(*guard).value() == count) return;
      ASSERT_FALSE(deadline.has_passed());
    }
  };
  auto first = ForkedChild::Fork({}, wait);
  ASSERT_THAT(first, IsOk());
  await_waiters(1);
  auto second = ForkedChild::Fork({}, wait);
  auto third = ForkedChild::Fork({}, wait);
  ASSERT_THAT(second, IsOk());
  ASSERT_THAT(third, IsOk());
  await_waiters(3);
  AcquireAllBut(1);
  {
    auto guard = mutex->Lock(Watchdog());
    ASSERT_THAT(guard, IsOk());
    EXPECT_THAT(condition->Notify(*guard), IsOkAndHolds(1u));
    first->Kill();
    // The dead waiter's notification goes to one of the two.
    EXPECT_THAT(condition->Notify(*guard, 0), IsOkAndHolds(0u));
    EXPECT_THAT(condition->CountWaiters(*guard), IsOkAndHolds(1u));
    EXPECT_THAT(condition->Notify(*guard, 0), IsOkAndHolds(0u));
    EXPECT_THAT(condition->CountWaiters(*guard), IsOkAndHolds(1u));
    EXPECT_THAT(condition->Notify(*guard), IsOkAndHolds(1u));
  }
  EXPECT_TRUE(second->EndsWell());
  EXPECT_TRUE(third->EndsWell());
  Release(kLimit - 1);
}

TEST_F(HeldLocksTest, ASlotOfABarrierCounts) {
  const auto barrier = Barrier::Create(1);
  ASSERT_THAT(barrier, IsOk());
  AcquireAllBut(2);
  {
    // A call holds two locks at once, and a Seat stays.
    const auto seat = barrier->Join(Watchdog());
    ASSERT_THAT(seat, IsOk());
    EXPECT_THAT(seat->Wait(Watchdog()), IsOkAndHolds(0u));
    EXPECT_THAT(barrier->Wait(Watchdog()), IsRefused("Barrier::Wait()"));
    EXPECT_THAT(barrier->Join(Watchdog()), IsRefused("Barrier::Join()"));
    RobustMutex& last = locks_->all[kLimit];
    ASSERT_EQ(last.TryLock(), 0);
    EXPECT_THAT(seat->Wait(Watchdog()), IsRefused("Barrier::Wait()"));
    EXPECT_THAT(barrier->Abort(Watchdog()), IsRefused("Barrier::Abort()"));
    EXPECT_THAT(barrier->Reset(Watchdog()), IsRefused("Barrier::Reset()"));
    EXPECT_THAT(barrier->IsBroken(), IsOkAndHolds(false));
    EXPECT_EQ(last.Unlock(), 0);
    EXPECT_THAT(seat->Wait(Watchdog()), IsOkAndHolds(0u));
  }
  EXPECT_THAT(barrier->Wait(Watchdog()), IsOkAndHolds(0u));
  Release(kLimit - 2);
}

// Removing a dead participant takes no lock besides the barrier's own.
TEST_F(HeldLocksTest, ABarrierIsResetAtTheLimit) {
  const auto barrier = Barrier::Create(1);
  ASSERT_THAT(barrier, IsOk());
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    const Barrier mine = Another(*barrier);
    const auto seat = mine.Join(Watchdog());
    if (seat.ok()) raise(SIGKILL);
  });
  ASSERT_THAT(child, IsOk());
  ASSERT_THAT(child->Wait(Watchdog()), IsOk());
  EXPECT_THAT(barrier->IsBroken(), IsOkAndHolds(true));
  AcquireAllBut(1);
  EXPECT_THAT(barrier->Reset(Watchdog()), IsOk());
  EXPECT_THAT(barrier->IsBroken(), IsOkAndHolds(false));
  Release(kLimit - 1);
  EXPECT_THAT(barrier->Wait(Watchdog()), IsOkAndHolds(0u));
}

}  // namespace
}  // namespace tenon
