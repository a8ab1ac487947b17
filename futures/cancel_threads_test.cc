// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Requests that cross with what they are about.

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/shm/status_matchers.h"

namespace tenon::futures {
namespace {

constexpr absl::Duration kWatchdog = absl::Minutes(1);
constexpr int kRounds = 2'000;

TEST(CancelThreadsTest, AWorkerThatLooksIsStopped) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  std::thread worker([promise = std::move(promise)]() mutable {
    while (!promise.cancel_requested()) std::this_thread::yield();
    promise.SetError(absl::CancelledError("stopped")).IgnoreError();
  });
  future.RequestCancel();
  EXPECT_THAT(future.Wait(kWatchdog), IsOk());
  EXPECT_THAT(future.value(), StatusIs(absl::StatusCode::kCancelled));
  worker.join();
}

TEST(CancelThreadsTest, ACallbackAddedMeanwhileRunsOnce) {
  for (int round = 0; round < kRounds; ++round) {
    Promise<int> promise;
    const Future<int> future = promise.future();
    auto calls = std::make_shared<std::atomic<int>>(0);
    int plain = 0;
    std::thread asker([&] {
      plain = 1;
      future.RequestCancel();
    });
    promise.OnCancelRequest([calls] { ++*calls; });
    promise.OnCancelRequest([calls] { ++*calls; });
    while (!promise.cancel_requested()) std::this_thread::yield();
    EXPECT_EQ(plain, 1);  // What came before the request is seen after it.
    asker.join();
    EXPECT_EQ(calls->load(), 2);
  }
}

TEST(CancelThreadsTest, ARequestMayCrossWithTheCompletion) {
  int asked_in_time = 0;
  for (int round = 0; round < kRounds; ++round) {
    Promise<int> promise;
    const Future<int> future = promise.future();
    auto calls = std::make_shared<std::atomic<int>>(0);
    promise.OnCancelRequest([calls] { ++*calls; });
    std::thread asker([&] { future.RequestCancel(); });
    promise.SetValue(1).IgnoreError();
    asker.join();
    EXPECT_THAT(future.value(), IsOkAndHolds(1));
    EXPECT_LE(calls->load(), 1);
    EXPECT_EQ(calls.use_count(), 1);  // Run or dropped, gone either way.
    asked_in_time += calls->load();
  }
  RecordProperty("asked_in_time", asked_in_time);
}

TEST(CancelThreadsTest, ARequestReachesAnInnerFutureThatComesMeanwhile) {
  for (int round = 0; round < kRounds; ++round) {
    Promise<int> outer, inner;
    Future<int> inner_future = inner.future();
    Future<int> last = outer.future().Then(
        [&](absl::StatusOr<int>) { return std::move(inner_future); });
    std::thread asker([&] { last.RequestCancel(); });
    outer.SetValue(1).IgnoreError();
    asker.join();
    EXPECT_TRUE(inner.cancel_requested()) << "round " << round;
    inner.SetValue(2).IgnoreError();
    EXPECT_THAT(last.value(), IsOkAndHolds(2));
  }
}

}  // namespace
}  // namespace tenon::futures
