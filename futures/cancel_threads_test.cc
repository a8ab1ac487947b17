// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Cancel requests that race with other operations on the same future.

#include <atomic>
#include <functional>
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
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

constexpr absl::Duration kCancelWatchdog = absl::Minutes(1);
// Rounds of a race: this many, or as many as the time allows on a busy machine,
// where each takes as long as the scheduler takes to run both threads.
constexpr int kCancelRounds = 2'000;
constexpr int kFewestRounds = 100;
constexpr absl::Duration kTimeForRounds = absl::Seconds(5);

class Rounds {
 public:
  // Whether there is another round.
  bool Next(int round, int most) const {
    return round < most && (round < kFewestRounds || absl::Now() < end_);
  }

 private:
  const absl::Time end_ = absl::Now() + kTimeForRounds;
};

TEST(CancelThreadsTest, AWorkerThatLooksIsStopped) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  std::thread worker([promise = std::move(promise)]() mutable {
    while (!promise.cancel_requested()) std::this_thread::yield();
    promise.SetError(absl::CancelledError("stopped")).IgnoreError();
  });
  future.RequestCancel();
  EXPECT_THAT(future.Wait(kCancelWatchdog), IsOk());
  EXPECT_THAT(future.value(), StatusIs(absl::StatusCode::kCancelled));
  worker.join();
}

TEST(CancelThreadsTest, ACallbackAddedMeanwhileRunsOnce) {
  const Rounds rounds;
  for (int round = 0; rounds.Next(round, kCancelRounds); ++round) {
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
    EXPECT_EQ(plain, 1);  // Writes before the request are visible after it.
    asker.join();
    EXPECT_EQ(calls->load(), 2);
  }
}

TEST(CancelThreadsTest, ARequestMayCrossWithTheCompletion) {
  int asked_in_time = 0;
  const Rounds rounds;
  for (int round = 0; rounds.Next(round, kCancelRounds); ++round) {
    Promise<int> promise;
    const Future<int> future = promise.future();
    auto calls = std::make_shared<std::atomic<int>>(0);
    promise.OnCancelRequest([calls] { ++*calls; });
    std::thread asker([&] { future.RequestCancel(); });
    promise.SetValue(1).IgnoreError();
    asker.join();
    EXPECT_THAT(future.value(), IsOkAndHolds(1));
    EXPECT_LE(calls->load(), 1);
    EXPECT_EQ(calls.use_count(), 1);  // Destroyed, whether run or dropped.
    asked_in_time += calls->load();
  }
  RecordProperty("asked_in_time", asked_in_time);
}

// Runs `one(i)` and `other(i)`, for i = 0 ..., in two threads in step, one a
// little later each time, so that they overlap in all ways. Returns the number
// of rounds: `most`, or as many as the time allows.
int RunInStep(int most, const std::function<void(int)>& one,
              const std::function<void(int)>& other) {
  const Rounds rounds;
  std::atomic<int> arrived = 0;
  std::atomic<int> end = most;
  const auto meet = [&](int i) {
    ++arrived;
    for (int spins = 0; arrived.load() < 2 * (i + 1); ++spins) {
      if (spins > 1'000) std::this_thread::yield();
    }
  };
  std::thread thread([&] {
    for (int i = 0;; ++i) {
      meet(i);
      if (i == end.load()) return;
      for (int spins = 0; spins < i % 64; ++spins) arrived.load();
      other(i);
    }
  });
  for (int i = 0;; ++i) {
    if (!rounds.Next(i, most))
      end.store(i);  // Visible to the other after meet().
    meet(i);
    if (i == end.load()) break;
    one(i);
  }
  thread.join();
  return end.load();
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
  const int first = RunInStep(kCount / 2, ask, set);
  const int second = RunInStep(
      kCount / 2, [&](int i) { set(kCount / 2 + i); },
      [&](int i) { ask(kCount / 2 + i); });
  for (int i = 0; i < kCount; ++i) {
    if (i % (kCount / 2) < (i < kCount / 2 ? first : second)) {
      ASSERT_TRUE(inner[i].cancel_requested()) << "pair " << i;
    } else {
      set(i);  // Not reached in time.
    }
    inner[i].SetValue(2).IgnoreError();
    ASSERT_THAT(last[i].value(), IsOkAndHolds(2));
  }
}

TEST(CancelThreadsTest, ACallbackThatCrossesWithTheCompletionIsDropped) {
  constexpr int kCount = 30'000;
  // Like callbacks, each holds the promise: if kept forever, it would be a
  // leak.
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
