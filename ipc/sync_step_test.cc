// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A process killed at every machine instruction of a call of Mutex, Semaphore,
// Event, Condition and Barrier, while another waits: the other goes on, and
// nothing is lost, doubled or stuck. With -c opt and TENON_STEP_STRIDE=1 that
// is every instruction of the code as it is shipped.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/barrier.h"
#include "tenon/ipc/condition.h"
#include "tenon/ipc/event.h"
#include "tenon/ipc/mutex.h"
#include "tenon/ipc/semaphore.h"
#include "tenon/ipc/sync_testing.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/testing/region.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/single_stepper.h"
#include "tenon/shm/testing/step_report.h"
#include "tenon/shm/testing/tracee.h"

namespace tenon {
namespace {

class SyncStepTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  }

  // Runs `wait` in a thread until End().
  void Begin(absl::AnyInvocable<absl::Status()> wait) {
    waiter_ = std::async(std::launch::async, std::move(wait));
    absl::SleepFor(absl::Milliseconds(1));  // Until it waits, most likely.
  }

  // Of a position that was missed, so that nobody has ended it: `let_go` has it
  // come back. To be called before what it waits for is made anew.
  void EndLast(absl::FunctionRef<void()> let_go) {
    if (!waiter_.valid()) return;
    let_go();
    waiter_.get().IgnoreError();
  }

  bool HasEnded(absl::Duration within) {
    return waiter_.wait_for(absl::ToChronoMilliseconds(within)) ==
           std::future_status::ready;
  }

  absl::Status End() {
    const absl::Time begin = absl::Now();
    absl::Status status = waiter_.get();
    longest_ = std::max(longest_, absl::Now() - begin);
    return status;
  }

  // Where the others wait for what never comes, for 100 ms at many positions:
  // one position in `stride`, or in TENON_STEP_STRIDE.
  void RunSome(StepScenario scenario, uint64_t stride) {
    const char* text = std::getenv("TENON_STEP_STRIDE");
    scenario.stride =
        text == nullptr ? stride : std::strtoull(text, nullptr, 10);
    Run(std::move(scenario));
  }

  void Run(StepScenario scenario) {
    scenario.name =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                               KillAtEveryInstruction(scenario));
    std::cout << report.ToString() << "the others waited up to " << longest_
              << "\n";
    EXPECT_TRUE(report.failures.empty()) << report.ToString();
    EXPECT_FALSE(report.given_up);
    EXPECT_GE(report.positions, 20u);
    EXPECT_LE(report.missed, report.positions / 10);
  }

  std::future<absl::Status> waiter_;
  absl::Duration longest_;
};

// --- Mutex. ---

absl::Status CheckMutex(const Mutex& mutex) {
  {
    TENON_ASSIGN_OR_RETURN(Mutex::Guard guard, mutex.Lock(Watchdog()));
    if (guard.owner_died()) TENON_RETURN_IF_ERROR(guard.MakeConsistent());
  }
  TENON_ASSIGN_OR_RETURN(const Mutex::Guard guard, mutex.Lock(Watchdog()));
  return Expect(!guard.owner_died(), "it is told twice that one died");
}

TEST_F(SyncStepTest, MutexLockAndUnlock) {
  const Mutex mutex = Mutex::Create().value();
  SharedObject<std::atomic<int>> inside;
  StepScenario scenario;
  scenario.prepare = [&] { inside.Reset(); };
  scenario.victim = [&](const Reporter&) {
    const Mutex mine = Another(mutex);
    BeginRegion();
    {
      const auto guard = mine.Lock(Deadline::Never());
      inside->store(1);
      inside->store(0);
    }
    EndRegion();
  };
  scenario.check = [&](const StepPosition&) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(Mutex::Guard guard, mutex.Lock(Watchdog()));
    const bool told = guard.owner_died();
    if (told) TENON_RETURN_IF_ERROR(guard.MakeConsistent());
    TENON_RETURN_IF_ERROR(guard.Unlock());
    TENON_RETURN_IF_ERROR(
        Expect(told || *inside == 0, "nobody is told of what was half done"));
    return CheckMutex(mutex);
  };
  Run(scenario);
}

// Somebody else sleeps in Lock() meanwhile.
TEST_F(SyncStepTest, MutexUnlockToAWaiter) {
  std::optional<Mutex> mutex;
  std::optional<Event> locked;
  StepScenario scenario;
  scenario.prepare = [&] {
    EndLast([&] { EXPECT_THAT(locked->Set(), IsOk()); });
    mutex.emplace(*Mutex::Create());
    locked.emplace(*Event::Create());
    Begin([&]() -> absl::Status {
      TENON_RETURN_IF_ERROR(locked->Wait(Watchdog()));
      return CheckMutex(*mutex);
    });
  };
  scenario.victim = [&](const Reporter&) {
    const Mutex mine = Another(*mutex);
    auto guard = mine.Lock(Deadline::Never());
    EXPECT_THAT(Another(*locked).Set(), IsOk());
    absl::SleepFor(absl::Milliseconds(1));
    BeginRegion();
    const absl::Status unlocked = guard->Unlock();
    EndRegion();
    EXPECT_THAT(unlocked, IsOk());
  };
  scenario.check = [&](const StepPosition&) -> absl::Status {
    TENON_RETURN_IF_ERROR(End());
    return CheckMutex(*mutex);
  };
  Run(scenario);
}

TEST_F(SyncStepTest, MutexMakeConsistent) {
  std::optional<Mutex> mutex;
  StepScenario scenario;
  scenario.prepare = [&] {
    mutex.emplace(*Mutex::Create());
    std::thread([&] {
      new Mutex::Guard(*mutex->Lock(Deadline::Never()));  // Never unlocked.
    }).join();
  };
  scenario.victim = [&](const Reporter&) {
    const Mutex mine = Another(*mutex);
    BeginRegion();
    {
      auto guard = mine.Lock(Deadline::Never());
      guard->MakeConsistent().IgnoreError();
    }
    EndRegion();
  };
  scenario.check = [&](const StepPosition&) { return CheckMutex(*mutex); };
  Run(scenario);
}

// --- Semaphore. ---

TEST_F(SyncStepTest, SemaphoreAcquire) {
  std::optional<Semaphore> semaphore;
  uint32_t least = 2;  // From one position to the next, it only falls.
  StepScenario scenario;
  scenario.prepare = [&] { semaphore.emplace(*Semaphore::Create(2)); };
  scenario.victim = [&](const Reporter&) {
    const Semaphore mine = Another(*semaphore);
    BeginRegion();
    const absl::Status acquired = mine.Acquire(Deadline::Never());
    EndRegion();
    EXPECT_THAT(acquired, IsOk());
  };
  scenario.check = [&](const StepPosition& position) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const uint32_t value, semaphore->GetValue());
    if (position.moment == StepMoment::kEnded) {
      return Expect(value == 1, "the value is wrong");
    }
    TENON_RETURN_IF_ERROR(
        Expect(value == 1 || value == 2, "a unit was lost or doubled"));
    TENON_RETURN_IF_ERROR(Expect(value <= least, "taken, and there again"));
    least = value;
    TENON_RETURN_IF_ERROR(semaphore->Acquire(Deadline::Passed()));
    TENON_RETURN_IF_ERROR(semaphore->Release());
    TENON_ASSIGN_OR_RETURN(const uint32_t after, semaphore->GetValue());
    return Expect(after == value, "the value is wrong");
  };
  Run(scenario);
  EXPECT_EQ(least, 1u);
}

// Somebody else sleeps in Acquire() meanwhile.
TEST_F(SyncStepTest, SemaphoreReleaseToAWaiter) {
  std::optional<Semaphore> semaphore;
  int released = 0, not_released = 0;
  StepScenario scenario;
  scenario.prepare = [&] {
    EndLast([&] { EXPECT_THAT(semaphore->Release(), IsOk()); });
    semaphore.emplace(*Semaphore::Create(0));
    Begin([&] { return semaphore->Acquire(Watchdog()); });
  };
  scenario.victim = [&](const Reporter&) {
    const Semaphore mine = Another(*semaphore);
    BeginRegion();
    const absl::Status status = mine.Release();
    EndRegion();
    EXPECT_THAT(status, IsOk());
  };
  scenario.check = [&](const StepPosition& position) -> absl::Status {
    // Either there is a unit, or has been, and then the waiter gets it.
    bool was_released =
        *semaphore->GetValue() == 1 || HasEnded(absl::Milliseconds(5));
    if (!was_released) TENON_RETURN_IF_ERROR(semaphore->Release());
    TENON_RETURN_IF_ERROR(End());
    const uint32_t left = *semaphore->GetValue();
    const bool was_slow = !was_released && left == 1;  // The waiter.
    TENON_RETURN_IF_ERROR(Expect(was_slow || left == 0, "a unit was doubled"));
    was_released = was_released || was_slow;
    if (position.moment == StepMoment::kEnded) return absl::OkStatus();
    ++(was_released ? released : not_released);
    return Expect(was_released || released == 0, "released, and not any more");
  };
  RunSome(scenario, 6);
  EXPECT_GT(released, 0);
  EXPECT_GT(not_released, 0);
}

// --- Event. ---

TEST_F(SyncStepTest, EventSetToAWaiter) {
  std::optional<Event> event;
  int set = 0, not_set = 0;
  StepScenario scenario;
  scenario.prepare = [&] {
    EndLast([&] { EXPECT_THAT(event->Set(), IsOk()); });
    event.emplace(*Event::Create());
    Begin([&] { return event->Wait(Watchdog()); });
  };
  scenario.victim = [&](const Reporter&) {
    const Event mine = Another(*event);
    BeginRegion();
    const absl::Status status = mine.Set();
    EndRegion();
    EXPECT_THAT(status, IsOk());
  };
  scenario.check = [&](const StepPosition&) -> absl::Status {
    if (*event->IsSet()) {
      ++set;
    } else {
      ++not_set;
      TENON_RETURN_IF_ERROR(event->Set());
    }
    TENON_RETURN_IF_ERROR(End());
    TENON_RETURN_IF_ERROR(event->Clear());
    return Expect(!*event->IsSet(), "it cannot be cleared");
  };
  RunSome(scenario, 6);
  EXPECT_GT(set, 0);
  EXPECT_GT(not_set, 0);
}

// --- Condition. ---

class ConditionStepTest : public SyncStepTest {
 protected:
  void Prepare() {
    EndLast([this] {
      auto guard = mutex_->Lock(Watchdog());
      ASSERT_THAT(guard, IsOk());
      ready_->store(1);
      EXPECT_THAT(condition_->NotifyAll(*guard), IsOk());
    });
    ready_.Reset();
    mutex_.emplace(*Mutex::Create());
    condition_.emplace(*Condition::Create());
  }

  // Waits for *ready_; a holder that died counts as well.
  absl::Status WaitUntilReady() {
    TENON_ASSIGN_OR_RETURN(Mutex::Guard guard, mutex_->Lock(Watchdog()));
    if (guard.owner_died()) return guard.MakeConsistent();
    const absl::Status status = condition_->WaitFor(
        guard, [&] { return ready_->load() != 0; }, Watchdog());
    if (absl::IsAborted(status)) return guard.MakeConsistent();
    return status;
  }

  // One who waits is notified, and nobody else is there.
  absl::Status CheckWhole() {
    TENON_RETURN_IF_ERROR(CheckMutex(*mutex_));
    ready_.Reset();
    Begin([this] { return WaitUntilReady(); });
    for (;;) {
      TENON_ASSIGN_OR_RETURN(const Mutex::Guard guard,
                             mutex_->Lock(Watchdog()));
      TENON_ASSIGN_OR_RETURN(const size_t count,
                             condition_->CountWaiters(guard));
      if (count == 0) continue;
      ready_->store(1);
      TENON_ASSIGN_OR_RETURN(const size_t notified,
                             condition_->Notify(guard, 7));
      TENON_RETURN_IF_ERROR(
          Expect(count == 1 && notified == 1, "the dead wait"));
      break;
    }
    return End();
  }

  SharedObject<std::atomic<int>> ready_;
  std::optional<Mutex> mutex_;
  std::optional<Condition> condition_;
};

TEST_F(ConditionStepTest, NotifyAWaiter) {
  StepScenario scenario;
  scenario.prepare = [&] {
    Prepare();
    Begin([this] { return WaitUntilReady(); });
  };
  scenario.victim = [&](const Reporter&) {
    const Mutex mutex = Another(*mutex_);
    const Condition mine = Another(*condition_);
    BeginRegion();
    {
      const auto guard = mutex.Lock(Deadline::Never());
      ready_->store(1);
      mine.Notify(*guard).status().IgnoreError();
    }
    EndRegion();
  };
  scenario.check = [&](const StepPosition&) -> absl::Status {
    // Unless it was killed before it had the lock, the waiter finds out.
    if (ready_->load() == 0 && mutex_->DebugString() == "a Mutex, free") {
      TENON_ASSIGN_OR_RETURN(Mutex::Guard guard, mutex_->Lock(Watchdog()));
      TENON_RETURN_IF_ERROR(Expect(!guard.owner_died(), "told twice"));
      ready_->store(1);
      TENON_RETURN_IF_ERROR(condition_->Notify(guard).status());
    }
    TENON_RETURN_IF_ERROR(End());
    return CheckWhole();
  };
  RunSome(scenario, 40);
}

TEST_F(ConditionStepTest, Wait) {
  StepScenario scenario;
  scenario.prepare = [&] { Prepare(); };
  scenario.victim = [&](const Reporter&) {
    const Mutex mutex = Another(*mutex_);
    const Condition mine = Another(*condition_);
    BeginRegion();
    {
      auto guard = mutex.Lock(Deadline::Never());
      mine.Wait(*guard, Deadline::Passed()).IgnoreError();
    }
    EndRegion();
  };
  scenario.check = [&](const StepPosition&) { return CheckWhole(); };
  RunSome(scenario, 5);
}

// --- Barrier. ---

class BarrierStepTest : public SyncStepTest {
 protected:
  // Two parties go through it, once it is new.
  absl::Status CheckWhole() {
    TENON_RETURN_IF_ERROR(barrier_->Reset(Watchdog()));
    for (int i = 0; i < 2; ++i) {
      Begin([this] { return barrier_->Wait(Watchdog()).status(); });
      const absl::Status own = barrier_->Wait(Watchdog()).status();
      TENON_RETURN_IF_ERROR(End());  // Also if this one failed.
      TENON_RETURN_IF_ERROR(own);
    }
    return Expect(*barrier_->CountWaiting() == 0, "the dead wait");
  }

  std::optional<Barrier> barrier_;
};

TEST_F(BarrierStepTest, TheLastOneArrives) {
  int passed = 0, broken = 0;
  StepScenario scenario;
  scenario.prepare = [&] {
    EndLast([this] { EXPECT_THAT(barrier_->Abort(Watchdog()), IsOk()); });
    barrier_.emplace(*Barrier::Create(2));
    Begin([this] { return barrier_->Wait(Watchdog()).status(); });
    while (*barrier_->CountWaiting() != 1) absl::SleepFor(absl::ZeroDuration());
  };
  scenario.victim = [&](const Reporter&) {
    const Barrier mine = Another(*barrier_);
    BeginRegion();
    const auto index = mine.Wait(Deadline::Never());
    EndRegion();
    EXPECT_THAT(index, IsOkAndHolds(1u));
  };
  scenario.check = [&](const StepPosition&) -> absl::Status {
    if (!*barrier_->IsBroken() && *barrier_->CountWaiting() == 1) {
      // It never came: another comes in its place. Or it died, and the waiter
      // was about to say so: then this one is told as well.
      barrier_->Wait(Watchdog()).status().IgnoreError();
    }
    const absl::Status status = End();
    ++(status.ok() ? passed : broken);
    TENON_RETURN_IF_ERROR(Expect(status.ok() || absl::IsAborted(status),
                                 "neither through nor told"));
    return CheckWhole();
  };
  RunSome(scenario, 60);
  EXPECT_GT(passed, 0);
  EXPECT_GT(broken, 0);
}

TEST_F(BarrierStepTest, TheFirstOneGivesUp) {
  StepScenario scenario;
  scenario.prepare = [&] { barrier_.emplace(*Barrier::Create(2)); };
  scenario.victim = [&](const Reporter&) {
    const Barrier mine = Another(*barrier_);
    BeginRegion();
    const auto index = mine.Wait(Deadline::Passed());
    EndRegion();
    EXPECT_THAT(index, StatusIs(absl::StatusCode::kDeadlineExceeded));
  };
  scenario.check = [&](const StepPosition&) { return CheckWhole(); };
  RunSome(scenario, 20);
}

TEST_F(BarrierStepTest, AbortAndReset) {
  StepScenario scenario;
  scenario.prepare = [&] {
    EndLast([this] { EXPECT_THAT(barrier_->Abort(Watchdog()), IsOk()); });
    barrier_.emplace(*Barrier::Create(2));
    Begin([this] { return barrier_->Wait(Watchdog()).status(); });
    while (*barrier_->CountWaiting() != 1) absl::SleepFor(absl::ZeroDuration());
  };
  scenario.victim = [&](const Reporter&) {
    const Barrier mine = Another(*barrier_);
    BeginRegion();
    mine.Abort(Deadline::Never()).IgnoreError();
    mine.Reset(Deadline::Never()).IgnoreError();
    EndRegion();
  };
  scenario.check = [&](const StepPosition&) -> absl::Status {
    const bool untouched =
        !*barrier_->IsBroken() && *barrier_->CountWaiting() == 1;
    if (untouched) barrier_->Wait(Watchdog()).status().IgnoreError();
    const absl::Status status = End();
    TENON_RETURN_IF_ERROR(
        Expect(absl::IsAborted(status) || (untouched && status.ok()),
               "a waiter was not told"));
    return CheckWhole();
  };
  RunSome(scenario, 40);
}

}  // namespace
}  // namespace tenon
