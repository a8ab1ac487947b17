// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Condition and Barrier killed at every machine instruction: see
// sync_step_testing.h.

#include <atomic>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/barrier.h"
#include "tenon/ipc/sync/condition.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/sync/sync_step_testing.h"
#include "tenon/ipc/sync/sync_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/region.h"
#include "tenon/shm/testing/trace/single_stepper.h"
#include "tenon/shm/testing/trace/step_report.h"

namespace tenon {
namespace {

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

  // A waiter is notified, without any other process.
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
    // Unless the victim was killed before it had the lock, the waiter notices.
    if (ready_->load() == 0 && mutex_->DebugString() == "a Mutex, free") {
      TENON_ASSIGN_OR_RETURN(Mutex::Guard guard, mutex_->Lock(Watchdog()));
      TENON_RETURN_IF_ERROR(Expect(!guard.owner_died(), "told twice"));
      ready_->store(1);
      TENON_RETURN_IF_ERROR(condition_->Notify(guard).status());
    }
    TENON_RETURN_IF_ERROR(End());
    return CheckWhole();
  };
  RunSome(scenario, 12);
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
  RunSome(scenario, 3);
}

// --- Barrier. ---

class BarrierStepTest : public SyncStepTest {
 protected:
  // Two participants pass through it, once it is reset.
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
      // The victim never arrived: another participant takes its turn. Or it
      // died, and the waiter was about to report that: then this one is told as
      // well.
      barrier_->Wait(Watchdog()).status().IgnoreError();
    }
    const absl::Status status = End();
    ++(status.ok() ? passed : broken);
    TENON_RETURN_IF_ERROR(Expect(status.ok() || absl::IsAborted(status),
                                 "neither through nor told"));
    return CheckWhole();
  };
  RunSome(scenario, 20);
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
  RunSome(scenario, 10);
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
  RunSome(scenario, 14);
}

}  // namespace
}  // namespace tenon
