// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tasks with tensors in blocks of arenas that do not complete: cancelled, late,
// dropped, or killed with their worker. No block stays held.

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/futures/future_testing.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/ipc_arguments.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/testing/child_testing.h"
#include "tenon/spawn/testing/pooled_functions_testing.h"
#include "tenon/spawn/testing/pooled_tensor_testing.h"

namespace tenon::spawn {
namespace {

using futures::Future;

class ProcessPoolPooledFaultTest : public ChildTest {};

TEST_F(ProcessPoolPooledFaultTest, CancelledTasks) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
  const auto submit = [&](bool kill) {
    return pool.SubmitWith({.kill_on_cancel = kill}, WaitWith,
                           MakeCounting(*arena, 10, 1).value(), event);
  };
  {
    Future<void> running = submit(true);
    Future<void> waiting = submit(false);
    waiting.RequestCancel();
    EXPECT_THAT(waiting.value(), StatusIs(absl::StatusCode::kCancelled));
    EXPECT_EQ(arena->Use().blocks_in_use, 1u);
    running.RequestCancel();
    EXPECT_THAT(running.value(), StatusIs(absl::StatusCode::kCancelled));
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
  EXPECT_THAT(Get(pool.Submit(CountBlocks)), IsOkAndHolds(0));
}

TEST_F(ProcessPoolPooledFaultTest, TasksWhoseDeadlinePasses) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
  std::vector<Future<void>> late;
  for (int i = 0; i < 3; ++i) {
    late.push_back(
        pool.SubmitWith({.deadline = Deadline::After(absl::Milliseconds(50))},
                        WaitWith, MakeCounting(*arena, 10, 1).value(), event));
  }
  for (Future<void>& future : late) {
    ASSERT_THAT(future.Wait(absl::Seconds(60)), IsOk());
    EXPECT_THAT(future.value(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(ProcessPoolPooledFaultTest, FuturesThatAreDropped) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  for (int64_t i = 0; i < 20; ++i) {
    static_cast<void>(pool.Submit(Make, i));
    static_cast<void>(
        pool.Submit(GiveBack, MakeCounting(*arena, 10, i).value()));
  }
  EXPECT_THAT(Get(pool.Submit(CountBlocks)), IsOkAndHolds(0));
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(ProcessPoolPooledFaultTest, AbortedPools) {
  const auto arena = MakeArena();
  {
    TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
    TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
    for (int i = 0; i < 5; ++i) {
      static_cast<void>(
          pool.Submit(WaitWith, MakeCounting(*arena, 10, 1).value(), event));
    }
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

// ---- Deaths of workers ----

TEST_F(ProcessPoolPooledFaultTest, WorkerKilledBeforeItHasClaimed) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  for (int i = 0; i < 10; ++i) {
    ASSERT_THAT(Get(pool.Submit(CountBlocks)), IsOkAndHolds(0));
    const pid_t worker = pool.worker_pids().at(0);
    ASSERT_EQ(kill(worker, SIGSTOP), 0);
    ASSERT_TRUE(Becomes([&] { return ProcessState(worker) == 'T'; }));
    auto future = pool.Submit(FirstOf, MakeCounting(*arena, 10, 1).value());
    arena->Trim().IgnoreError();
    EXPECT_EQ(arena->Use().blocks_in_use, 1u);
    ASSERT_EQ(kill(worker, SIGKILL), 0);
    const auto exited = GetProcessExited(Get(std::move(future)).status());
    ASSERT_TRUE(exited.has_value());
    EXPECT_EQ(exited->signal_name, "SIGKILL");
    EXPECT_TRUE(NothingIsLeftIn(*arena));
  }
}

TEST_F(ProcessPoolPooledFaultTest, WorkerKilledAtEachPointOfItsHandOvers) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  for (const char* point :
       {"tensor_parcel.received", "attached_arena.claimed",
        "tensor_parcel.claimed", "hold_until_closed.held"}) {
    ASSERT_THAT(Get(pool.Submit(GiveBack, MakeCounting(*arena, 9, 1).value())),
                IsOk());
    auto set = pool.Submit(DieAt, point);
    ASSERT_THAT(set.Wait(absl::Seconds(60)), IsOk());
    const auto exited = GetProcessExited(
        Get(pool.Submit(GiveBack, MakeCounting(*arena, 9, 1).value()))
            .status());
    ASSERT_TRUE(exited.has_value()) << point;
    EXPECT_EQ(exited->signal_name, "SIGKILL") << point;
    EXPECT_TRUE(NothingIsLeftIn(*arena)) << point;
  }
}

TEST_F(ProcessPoolPooledFaultTest, WorkerKilledWhoseResultsAreKept) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor made, Get(pool.Submit(Make, 3)));
  TENON_ASSERT_OK_AND_ASSIGN(
      Tensor back,
      Get(pool.Submit(GiveBack, MakeCounting(*arena, 10, 4).value())));
  ASSERT_EQ(kill(pool.worker_pids().at(0), SIGKILL), 0);
  EXPECT_TRUE(Becomes([&] { return pool.counts().started == 2; }));
  EXPECT_THAT(CheckCounting(made, 10, 3), IsOk());
  EXPECT_THAT(CheckCounting(back, 10, 4), IsOk());
  // They can still be passed on.
  EXPECT_THAT(Get(pool.Submit(FirstOf, made)), IsOkAndHolds(3));
  EXPECT_THAT(Get(pool.Submit(FirstOf, back)), IsOkAndHolds(4));
  made = back = Tensor();
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

// The block of a result is the worker's own, or came to it as an argument. A
// result that arrives is intact; a call without one fails with the worker that
// was killed.
TEST_F(ProcessPoolPooledFaultTest, WorkersKilledAtAnyMoment) {
  const auto arena = MakeArena();
  std::mt19937 random(20260701);
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
  int arrived = 0;
  for (int64_t i = 0; i < 200; ++i) {
    std::vector<Future<Tensor>> futures;
    for (int64_t k = 0; k < 4; ++k) {
      futures.push_back(
          pool.Submit(GiveBack, MakeCounting(*arena, 10, i).value()));
      futures.push_back(
          pool.Submit(Follow, MakeCounting(*arena, 10, i - 1).value()));
    }
    absl::SleepFor(absl::Microseconds(random() % 300));
    for (const pid_t pid : pool.worker_pids()) {
      if (random() % 2 == 0) kill(pid, SIGKILL);
    }
    for (Future<Tensor>& future : futures) {
      const absl::StatusOr<Tensor> result = Get(std::move(future));
      if (result.ok()) {
        ++arrived;
        ASSERT_THAT(CheckCounting(*result, 10, i), IsOk());
      } else {
        ASSERT_TRUE(GetProcessExited(result.status())) << result.status();
      }
    }
  }
  EXPECT_GT(arrived, 0);
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

}  // namespace
}  // namespace tenon::spawn
