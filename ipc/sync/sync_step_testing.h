// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SyncStepTest: a process killed at every machine instruction of a call on a
// synchronisation type, while another waits: the other one continues, and
// nothing is lost, doubled or stuck. With -c opt and TENON_STEP_STRIDE=1 that
// is every instruction of the code as it is shipped.

#ifndef TENON_IPC_SYNC_SYNC_STEP_TESTING_H_
#define TENON_IPC_SYNC_SYNC_STEP_TESTING_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <iostream>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/sync/sync_testing.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/single_stepper.h"
#include "tenon/shm/testing/trace/step_report.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {

class SyncStepTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  }

  // Runs `wait` in a thread until End().
  void Begin(absl::AnyInvocable<absl::Status()> wait) {
    waiter_ = std::async(std::launch::async, std::move(wait));
    absl::SleepFor(absl::Milliseconds(1));  // Until it most likely waits.
  }

  // Ends the waiter of a position that was missed, so that End() was not
  // called: `let_go` makes it return. To be called before the object that it
  // waits for is replaced.
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

  // For waits that no event ends, of 100 ms at many positions: one position in
  // `stride`, or in TENON_STEP_STRIDE.
  void RunSome(StepScenario scenario, uint64_t stride) {
    const char* text = std::getenv("TENON_STEP_STRIDE");
    scenario.stride =
        text == nullptr ? stride : std::strtoull(text, nullptr, 10);
    Run(std::move(scenario));
  }

  void Run(StepScenario scenario) {
    scenario.name =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    scenario.may_have_threads = true;  // The waiter for the victim.
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

// Checks that it can be locked, and that its next holders are told of a death
// once.
inline absl::Status CheckMutex(const Mutex& mutex) {
  {
    TENON_ASSIGN_OR_RETURN(Mutex::Guard guard, mutex.Lock(Watchdog()));
    if (guard.owner_died()) TENON_RETURN_IF_ERROR(guard.MakeConsistent());
  }
  TENON_ASSIGN_OR_RETURN(const Mutex::Guard guard, mutex.Lock(Watchdog()));
  return Expect(!guard.owner_died(), "it is told twice that one died");
}

}  // namespace tenon

#endif  // TENON_IPC_SYNC_SYNC_STEP_TESTING_H_
