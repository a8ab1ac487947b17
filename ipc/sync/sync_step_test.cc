// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Mutex, Semaphore and Event killed at every machine instruction: see
// sync_step_testing.h.

#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/sync/semaphore.h"
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

// --- Mutex. ---

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

// Another thread sleeps in Lock() meanwhile.
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
  uint32_t least = 2;  // From one position to the next it only decreases.
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

// Another thread sleeps in Acquire() meanwhile.
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
    // If there is a unit, or was one, the waiter gets it.
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
  RunSome(scenario, 3);
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
  RunSome(scenario, 3);
  EXPECT_GT(set, 0);
  EXPECT_GT(not_set, 0);
}

}  // namespace
}  // namespace tenon
