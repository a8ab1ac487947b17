// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Cancel requests for tasks of a pool.

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/collect.h"
#include "tenon/futures/future.h"
#include "tenon/futures/future_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using futures::Future;
using futures::kWatchdog;
using ::testing::HasSubstr;

class ProcessPoolCancelTest : public ChildTest {};

int Nap(int milliseconds) {
  absl::SleepFor(absl::Milliseconds(milliseconds));
  return milliseconds;
}
TENON_POOL_FUNCTION(Nap);

constexpr int kForEver = 1'000'000;

bool AllAreBusy(const ProcessPool& pool) { return pool.counts().idle == 0; }

TEST_F(ProcessPoolCancelTest, TaskThatWaitsIsDroppedAtOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  Future<int> running = pool.Submit(Nap, 100);
  Future<int> waiting = pool.Submit(Nap, kForEver);
  Future<int> next = pool.Submit(Nap, 1);
  waiting.RequestCancel();
  EXPECT_TRUE(waiting.done());
  EXPECT_THAT(waiting.value().status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("before")));
  EXPECT_THAT(Get(std::move(running)), IsOkAndHolds(100));
  EXPECT_THAT(Get(std::move(next)), IsOkAndHolds(1));
  EXPECT_EQ(pool.counts().started, 1u);
}

TEST_F(ProcessPoolCancelTest, TaskThatRunsGoesOnAndItsResultArrives) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  Future<int> running = pool.Submit(Nap, 50);
  EXPECT_TRUE(AllAreBusy(pool));
  running.RequestCancel();
  EXPECT_THAT(Get(std::move(running)), IsOkAndHolds(50));
  EXPECT_EQ(pool.counts().started, 1u);
}

TEST_F(ProcessPoolCancelTest, TaskThatRunsIsKilledIfItsOptionsSaySo) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  const std::vector<pid_t> before = pool.worker_pids();
  Future<int> running =
      pool.SubmitWith({.kill_on_cancel = true}, Nap, kForEver);
  Future<int> next = pool.Submit(Nap, 1);
  running.RequestCancel();
  EXPECT_TRUE(running.done());
  EXPECT_THAT(running.value().status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("killed")));
  EXPECT_THAT(Get(std::move(next)), IsOkAndHolds(1));
  EXPECT_NE(pool.worker_pids(), before);
}

TEST_F(ProcessPoolCancelTest, WhoWaitsIsWoken) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  const Future<int> running =
      pool.SubmitWith({.kill_on_cancel = true}, Nap, kForEver);
  std::thread waiter([&] { EXPECT_THAT(running.Wait(kWatchdog), IsOk()); });
  absl::SleepFor(absl::Milliseconds(20));
  running.RequestCancel();
  waiter.join();
  EXPECT_THAT(running.value().status(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(ProcessPoolCancelTest, TooLateItDoesNothing) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  Future<int> future = pool.SubmitWith({.kill_on_cancel = true}, Nap, 1);
  ASSERT_THAT(future.Wait(kWatchdog), IsOk());
  future.RequestCancel();
  EXPECT_THAT(Get(std::move(future)), IsOkAndHolds(1));
  EXPECT_THAT(Get(pool.Submit(Nap, 2)), IsOkAndHolds(2));
  EXPECT_EQ(pool.counts().started, 1u);
}

TEST_F(ProcessPoolCancelTest, AlsoAfterThePool) {
  Future<int> future;
  {
    TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                               ProcessPool::Create({.workers = 1}));
    future = pool.Submit(Nap, kForEver);
  }
  future.RequestCancel();
  EXPECT_THAT(future.value().status(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(ProcessPoolCancelTest, MapDropsTheChunksThatWait) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  std::vector<int> inputs(100, kForEver);
  inputs[0] = 50;
  auto all = pool.Map(Nap, inputs, {.chunk_size = 1});
  Future<int> other = pool.Submit(Nap, 1);
  all.RequestCancel();
  EXPECT_EQ(pool.counts().pending, 1u);
  EXPECT_THAT(Get(std::move(all)).status(),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Get(std::move(other)), IsOkAndHolds(1));
}

TEST_F(ProcessPoolCancelTest, ReachesTasksThroughWhatIsMadeOfThem) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  std::vector<Future<int>> tasks;
  for (int i = 0; i < 3; ++i) {
    tasks.push_back(pool.SubmitWith({.kill_on_cancel = true}, Nap, kForEver));
  }
  auto all = futures::CollectAll(std::move(tasks));
  all.RequestCancel();
  EXPECT_THAT(Get(std::move(all)).status(),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Get(pool.Submit(Nap, 2)), IsOkAndHolds(2));
}

TEST_F(ProcessPoolCancelTest, ShutdownDoesNotWaitForWhatWasCancelled) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  Future<int> running =
      pool.SubmitWith({.kill_on_cancel = true}, Nap, kForEver);
  Future<int> waiting = pool.Submit(Nap, kForEver);
  std::thread canceller([&] {
    absl::SleepFor(absl::Milliseconds(20));
    waiting.RequestCancel();
    running.RequestCancel();
  });
  EXPECT_THAT(pool.Shutdown(Deadline::After(kWatchdog)), IsOk());
  canceller.join();
}

// Concurrently with answers, deaths and other requests.
TEST_F(ProcessPoolCancelTest, AtAnyMomentEveryFutureIsDone) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  for (int round = 0; round < 50; ++round) {
    std::vector<Future<int>> futures;
    for (int i = 0; i < 8; ++i) {
      futures.push_back(
          pool.SubmitWith({.kill_on_cancel = i % 2 == 0}, Nap, i % 3));
    }
    std::thread canceller([&] {
      for (const auto& future : futures) future.RequestCancel();
    });
    for (const auto& future : futures) {
      ASSERT_THAT(future.Wait(kWatchdog), IsOk());
    }
    canceller.join();
    for (const auto& future : futures) {
      const absl::Status status = future.value().status();
      EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    }
  }
  EXPECT_THAT(Get(pool.Submit(Nap, 2)), IsOkAndHolds(2));
}

}  // namespace
}  // namespace tenon::spawn
