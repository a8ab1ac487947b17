// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Requests that cross with what they are about.

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

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

// Runs `one(i)` and `other(i)`, for i = 0 ..., in two threads that begin each
// in step, one a little later each time, so that they meet everywhere.
void RunInStep(int count, const std::function<void(int)>& one,
               const std::function<void(int)>& other) {
  std::atomic<int> arrived = 0;
  const auto walk = [&](const std::function<void(int)>& body, int delay) {
    for (int i = 0; i < count; ++i) {
      ++arrived;
      for (int spins = 0; arrived.load() < 2 * (i + 1); ++spins) {
        if (spins > 1'000) std::this_thread::yield();
      }
      for (int spins = 0; spins < delay * (i % 64); ++spins) arrived.load();
      body(i);
    }
  };
  std::thread thread(walk, other, 1);
  walk(one, 0);
  thread.join();
}

TEST(CancelThreadsTest, ARequestReachesAnInnerFutureThatComesMeanwhile) {
  constexpr int kCount = 30'000;
  std::vector<Promise<int>> outer(kCount), inner(kCount);
  std::vector<Future<int>> last;
  for (int i = 0; i < kCount; ++i) {
    last.push_back(outer[i].future().Then(
        [&inner, i](const absl::StatusOr<int>&) { return inner[i].future(); }));
  }
  const auto ask = [&](int i) { last[i].RequestCancel(); };
  const auto set = [&](int i) { outer[i].SetValue(1).IgnoreError(); };
  RunInStep(kCount / 2, ask, set);
  RunInStep(
      kCount / 2, [&](int i) { set(kCount / 2 + i); },
      [&](int i) { ask(kCount / 2 + i); });
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(inner[i].cancel_requested()) << "pair " << i;
    inner[i].SetValue(2).IgnoreError();
    ASSERT_THAT(last[i].value(), IsOkAndHolds(2));
  }
}

TEST(CancelThreadsTest, ACallbackThatCrossesWithTheCompletionIsDropped) {
  constexpr int kCount = 30'000;
  // As callbacks do, each holds the promise: kept for good, it would be a leak.
  std::vector<std::shared_ptr<Promise<int>>> promises(kCount);
  for (auto& promise : promises) promise = std::make_shared<Promise<int>>();
  const auto alive = std::make_shared<int>(0);
  const auto add = [&](int i) {
    promises[i]->OnCancelRequest([promise = promises[i], alive] {
      promise->TrySetError(absl::CancelledError("asked"));
    });
  };
  const auto set = [&](int i) { promises[i]->SetValue(1).IgnoreError(); };
  RunInStep(kCount / 2, add, set);
  RunInStep(
      kCount / 2, [&](int i) { set(kCount / 2 + i); },
      [&](int i) { add(kCount / 2 + i); });
  promises.clear();
  EXPECT_EQ(alive.use_count(), 1);
}

}  // namespace
}  // namespace tenon::futures
