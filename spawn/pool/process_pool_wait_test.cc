// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Waiting threads receive the answer of their task themselves: races with all
// other events.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
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
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using futures::Future;
using futures::kWatchdog;

// Time in which a waiter usually begins to wait.
constexpr absl::Duration kHeadStart = absl::Milliseconds(20);

class ProcessPoolWaitTest : public ChildTest {};

int Twice(int x) { return 2 * x; }
TENON_POOL_FUNCTION(Twice);

int SleepFor(int milliseconds) {
  absl::SleepFor(absl::Milliseconds(milliseconds));
  return milliseconds;
}
TENON_POOL_FUNCTION(SleepFor);

int KillMyself() {
  absl::SleepFor(kHeadStart);
  return raise(SIGKILL);
}
TENON_POOL_FUNCTION(KillMyself);

// Whether this thread received the answer.
bool CallbackRunsHere(const ProcessPool& pool) {
  Future<int> future = pool.Submit(SleepFor, 5);
  std::thread::id called_on;
  future.AddDoneCallback(
      [&](const auto&) { called_on = std::this_thread::get_id(); });
  EXPECT_THAT(future.Wait(kWatchdog), IsOk());
  return called_on == std::this_thread::get_id();
}

TEST_F(ProcessPoolWaitTest, WhoWaitsReceives) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  EXPECT_TRUE(Becomes([&] { return CallbackRunsHere(pool); }));
  // The dispatcher leads the worker again.
  std::atomic<bool> done = false;
  pool.Submit(Twice, 1).AddDoneCallback([&](const auto&) { done = true; });
  EXPECT_TRUE(Becomes([&] { return done.load(); }));
}

TEST_F(ProcessPoolWaitTest, WaitThatGivesUpLeavesTheRestToOthers) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  Future<int> future = pool.Submit(SleepFor, 50);
  for (int i = 0; i < 5; ++i) {
    future.Wait(absl::Milliseconds(1)).IgnoreError();
  }
  EXPECT_TRUE(Becomes([&] { return future.done(); }));
  EXPECT_THAT(Get(std::move(future)), IsOkAndHolds(50));
}

TEST_F(ProcessPoolWaitTest, SeveralWaitForOneTask) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  for (int round = 0; round < 20; ++round) {
    const Future<int> future = pool.Submit(SleepFor, 2);
    const auto wait = [&] { EXPECT_THAT(future.Wait(kWatchdog), IsOk()); };
    std::thread second(wait);
    std::thread third(wait);
    wait();
    second.join();
    third.join();
    EXPECT_THAT(future.value(), IsOkAndHolds(2));
  }
}

TEST_F(ProcessPoolWaitTest, ManyWaitersFewWorkers) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&pool, t] {
      for (int i = 0; i < 200; ++i) {
        EXPECT_THAT(Get(pool.Submit(Twice, t + i)), IsOkAndHolds(2 * (t + i)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.counts().pending, 0u);
  EXPECT_EQ(pool.counts().idle, 2u);
  EXPECT_THAT(pool.Shutdown(Deadline::After(kWatchdog)), IsOk());
}

TEST_F(ProcessPoolWaitTest, WorkerDiesUnderAWaiter) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  for (int round = 0; round < 5; ++round) {
    const absl::Status died = Get(pool.Submit(KillMyself)).status();
    EXPECT_THAT(died, StatusIs(absl::StatusCode::kAborted));
    EXPECT_TRUE(GetProcessExited(died).has_value()) << died;
    EXPECT_THAT(Get(pool.Submit(Twice, 4)), IsOkAndHolds(8));
  }
}

// Leaves a process behind that has all descriptors of the worker, including its
// channel, and lives until `until` is closed.
int LeaveSomebodyAndDie(UniqueFd until) {
  if (fork() == 0) {
    setsid();
    char byte = 0;
    [[maybe_unused]] const auto end = read(until.get(), &byte, 1);
    _exit(0);
  }
  absl::SleepFor(kHeadStart);
  return raise(SIGKILL);
}
TENON_POOL_FUNCTION(LeaveSomebodyAndDie);

TEST_F(ProcessPoolWaitTest, WorkerDiesAndItsChannelLives) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  for (const absl::Duration timeout : {absl::InfiniteDuration(), kWatchdog}) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd until_closed(ends[1]);
    const Future<int> future =
        pool.Submit(LeaveSomebodyAndDie, UniqueFd(ends[0]));
    ASSERT_THAT(future.Wait(timeout), IsOk());
    EXPECT_THAT(future.value().status(), StatusIs(absl::StatusCode::kAborted));
    EXPECT_THAT(Get(pool.Submit(Twice, 4)), IsOkAndHolds(8));
  }
}

TEST_F(ProcessPoolWaitTest, WornWorkersAreReplacedAlsoByWaiters) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create({.workers = 1, .max_tasks_per_worker = 1}));
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(Get(pool.Submit(Twice, i)), IsOkAndHolds(2 * i));
  }
  EXPECT_GE(pool.counts().started, 10u);
}

TEST_F(ProcessPoolWaitTest, IdleWorkersEndAlsoAfterAWaiter) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create({.workers = 1,
                           .min_workers = 0,
                           .idle_timeout = absl::Milliseconds(10)}));
  EXPECT_THAT(Get(pool.Submit(SleepFor, 30)), IsOk());
  EXPECT_TRUE(Becomes([&] { return pool.counts().workers == 0; }));
}

TEST_F(ProcessPoolWaitTest, DeadlineOfATaskEndsTheWait) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  EXPECT_THAT(
      Get(pool.SubmitWith({.deadline = Deadline::After(absl::Milliseconds(30))},
                          SleepFor, 1'000'000))
          .status(),
      StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_F(ProcessPoolWaitTest, AbortEndsTheWait) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  const Future<int> future = pool.Submit(SleepFor, 1'000'000);
  std::thread aborter([&] {
    absl::SleepFor(kHeadStart);
    pool.Abort();
  });
  EXPECT_THAT(future.Wait(kWatchdog), IsOk());
  EXPECT_THAT(future.value().status(), StatusIs(absl::StatusCode::kCancelled));
  aborter.join();
}

TEST_F(ProcessPoolWaitTest, DroppedPoolEndsTheWait) {
  for (int round = 0; round < 10; ++round) {
    TENON_ASSERT_OK_AND_ASSIGN(ProcessPool created,
                               ProcessPool::Create({.workers = 1}));
    auto pool = std::make_unique<ProcessPool>(std::move(created));
    const Future<int> future = pool->Submit(SleepFor, 1'000'000);
    std::thread dropper([&] {
      absl::SleepFor(absl::Milliseconds(round));
      pool.reset();
    });
    EXPECT_THAT(future.Wait(kWatchdog), IsOk());
    EXPECT_THAT(future.value().status(),
                StatusIs(absl::StatusCode::kCancelled));
    dropper.join();
    EXPECT_THAT(future.Wait(kWatchdog), IsOk());
  }
}

// Its callbacks have run when Shutdown() returns, on whichever thread.
TEST_F(ProcessPoolWaitTest, ShutdownWaitsForTheCallbacksOfWaiters) {
  for (int round = 0; round < 10; ++round) {
    TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                               ProcessPool::Create({.workers = 1}));
    const Future<int> future = pool.Submit(SleepFor, 5);
    std::atomic<bool> called = false;
    future.AddDoneCallback([&](const auto&) {
      absl::SleepFor(absl::Milliseconds(10));
      called = true;
    });
    std::thread waiter([&] { EXPECT_THAT(future.Wait(kWatchdog), IsOk()); });
    EXPECT_THAT(pool.Shutdown(Deadline::After(kWatchdog)), IsOk());
    EXPECT_TRUE(called.load());
    waiter.join();
  }
}

TEST_F(ProcessPoolWaitTest, CallbackOnAWaiterCannotWaitForThePool) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  for (int round = 0; round < 5; ++round) {
    const Future<int> future = pool.Submit(SleepFor, 5);
    absl::Status status;
    absl::StatusOr<int> nested = 0;
    future.AddDoneCallback([&](const auto&) {
      status = pool.Shutdown();
      nested = Get(pool.Submit(Twice, 3));
    });
    EXPECT_THAT(future.Wait(kWatchdog), IsOk());
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_THAT(nested, IsOkAndHolds(6));
  }
}

}  // namespace
}  // namespace tenon::spawn
