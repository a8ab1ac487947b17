// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Futures between threads. Other data that the threads access is plain, not
// atomic, wherever a future orders it: ThreadSanitizer reports a missing order,
// and the checks find a wrong one.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Pointee;

// A wait longer than this is a hang.
constexpr absl::Duration kFutureWatchdog = absl::Minutes(1);
constexpr int kFutureRounds = 2'000;
constexpr int kThreads = 4;

// Runs `body(0)` to `body(kThreads - 1)`, each in a thread, all released at
// once.
void RunTogether(const std::function<void(int)>& body) {
  std::atomic<int> arrived = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&body, &arrived, i] {
      ++arrived;
      while (arrived.load() < kThreads) std::this_thread::yield();
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FutureThreadsTest, AWaiterGetsTheValueAndWhatCameBeforeIt) {
  for (int round = 0; round < kFutureRounds; ++round) {
    Promise<int> promise;
    Future<int> future = promise.future();
    int plain = 0;
    std::thread setter([&] {
      plain = round;
      promise.SetValue(round).IgnoreError();
    });
    EXPECT_THAT(future.Wait(kFutureWatchdog), IsOk());
    EXPECT_EQ(plain, round);
    EXPECT_THAT(future.value(), IsOkAndHolds(round));
    setter.join();
  }
}

TEST(FutureThreadsTest, DoneAloneOrdersTheValue) {
  for (int round = 0; round < kFutureRounds; ++round) {
    Promise<std::vector<int>> promise;
    Future<std::vector<int>> future = promise.future();
    std::thread setter(
        [&] { promise.SetValue(std::vector<int>(3, round)).IgnoreError(); });
    while (!future.done()) std::this_thread::yield();
    EXPECT_THAT(std::move(future).value(), IsOkAndHolds(Each(round)));
    setter.join();
  }
}

TEST(FutureThreadsTest, AnErrorWakesEveryWaiter) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  std::vector<absl::Status> seen(kThreads);
  RunTogether([&](int i) {
    if (i == 0) {
      promise.SetError(absl::DataLossError("torn")).IgnoreError();
    }
    EXPECT_THAT(future.Wait(kFutureWatchdog), IsOk());
    seen[i] = future.value().status();
  });
  EXPECT_THAT(seen, Each(StatusIs(absl::StatusCode::kDataLoss, "torn")));
}

TEST(FutureThreadsTest, AChildAttachedInAnotherThreadGetsTheError) {
  for (int round = 0; round < kFutureRounds / 10; ++round) {
    Promise<int> promise;
    const Future<int> future = promise.future();
    std::thread waiter([&] {
      const Future<int> child =
          future.Then([](const absl::StatusOr<int>& value) { return value; });
      EXPECT_THAT(child.Wait(kFutureWatchdog), IsOk());
      EXPECT_THAT(child.value(), StatusIs(absl::StatusCode::kDataLoss, "torn"));
    });
    promise.SetError(absl::DataLossError("torn")).IgnoreError();
    waiter.join();
  }
}

TEST(FutureThreadsTest, ADroppedPromiseWakesItsWaiter) {
  for (int round = 0; round < kFutureRounds; ++round) {
    std::optional<Promise<int>> promise(std::in_place);
    Future<int> future = promise->future();
    std::thread dropper([&] { promise.reset(); });
    EXPECT_THAT(future.Wait(kFutureWatchdog), IsOk());
    EXPECT_THAT(future.value(), StatusIs(absl::StatusCode::kAborted));
    dropper.join();
  }
}

TEST(FutureThreadsTest, OneOfTwoCompletersWins) {
  // In step along many promises, so that the threads coincide at some.
  constexpr int kPromises = 50'000;
  std::vector<Promise<int>> promises(kPromises);
  std::vector<std::vector<bool>> won(2, std::vector<bool>(kPromises));
  std::atomic<int> arrived = 0;
  const auto walk = [&](int i) {
    for (int p = 0; p < kPromises; ++p) {
      ++arrived;
      for (int spins = 0; arrived.load() < 2 * (p + 1); ++spins) {
        if (spins > 1'000) std::this_thread::yield();
      }
      won[i][p] = promises[p].TrySetValue(i);
    }
  };
  std::thread other(walk, 1);
  walk(0);
  other.join();
  for (int p = 0; p < kPromises; ++p) {
    ASSERT_NE(won[0][p], won[1][p]) << "promise " << p;
    ASSERT_THAT(promises[p].future().value(), IsOkAndHolds(won[0][p] ? 0 : 1));
  }
}

TEST(FutureThreadsTest, ACallbackAttachedAfterASleeperDoesNotHideIt) {
  for (int round = 0; round < 20; ++round) {
    Promise<int> promise;
    const Future<int> future = promise.future();
    std::thread sleeper(
        [&] { EXPECT_THAT(future.Wait(kFutureWatchdog), IsOk()); });
    // Usually long enough for it to sleep; shorter is harmless.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    future.AddDoneCallback([](const auto&) {});
    promise.SetValue(1).IgnoreError();
    sleeper.join();
  }
}

TEST(FutureThreadsTest, CallbacksAttachedDuringCompletionRunOnce) {
  constexpr int kCallbacks = 8;
  for (int round = 0; round < kFutureRounds / 10; ++round) {
    Promise<int> promise;
    const Future<int> future = promise.future();
    int calls[kThreads][kCallbacks] = {};
    RunTogether([&](int i) {
      if (i == 0) promise.SetValue(round).IgnoreError();
      for (int c = 0; c < kCallbacks; ++c) {
        future.AddDoneCallback([&calls, i, c, round](const auto& value) {
          EXPECT_THAT(value, IsOkAndHolds(round));
          ++calls[i][c];
        });
      }
    });
    for (const auto& of_thread : calls) EXPECT_THAT(of_thread, Each(1));
  }
}

TEST(FutureThreadsTest, WaitReturnsAfterEarlierCallbacks) {
  for (int round = 0; round < kFutureRounds; ++round) {
    Promise<int> promise;
    Future<int> future = promise.future();
    int plain = 0;
    future.AddDoneCallback([&](const auto&) {
      std::this_thread::yield();
      ++plain;
    });
    Future<void> child = future.Then([&](const auto&) { ++plain; });
    std::thread setter([&] { promise.SetValue(1).IgnoreError(); });
    EXPECT_THAT(future.Wait(kFutureWatchdog), IsOk());
    EXPECT_EQ(plain, 2);
    // Nor are they still reading the result that is moved out here.
    EXPECT_THAT(std::move(future).value(), IsOkAndHolds(1));
    setter.join();
    EXPECT_TRUE(child.done());
  }
}

TEST(FutureThreadsTest, ARunningCallbackHoldsUpWaitAndMovesButNotReaders) {
  Promise<std::unique_ptr<int>> promise;
  Promise<void> entered, leave;
  Future<void> has_entered = entered.future(), may_leave = leave.future();
  Future<std::unique_ptr<int>> future = promise.future();
  int seen_after = 0;
  future.AddDoneCallback([&](const absl::StatusOr<std::unique_ptr<int>>& v) {
    entered.SetValue().IgnoreError();
    EXPECT_THAT(may_leave.Wait(kFutureWatchdog), IsOk());
    seen_after = **v;
  });
  std::thread setter(
      [&] { promise.SetValue(std::make_unique<int>(8)).IgnoreError(); });
  ASSERT_THAT(has_entered.Wait(kFutureWatchdog), IsOk());

  EXPECT_TRUE(future.done());
  EXPECT_THAT(future.value(), IsOkAndHolds(Pointee(8)));
  EXPECT_TRUE(future.Then([](const auto&) {}).done());
  EXPECT_THAT(future.Wait(absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("has not returned")));
  EXPECT_THAT(std::move(future).value(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cannot be moved out")));
  Future<std::unique_ptr<int>> last = std::move(future).Then(
      [](absl::StatusOr<std::unique_ptr<int>> v) { return v; });
  EXPECT_FALSE(last.done());

  ASSERT_THAT(leave.SetValue(), IsOk());
  EXPECT_THAT(last.Wait(kFutureWatchdog), IsOk());
  EXPECT_EQ(seen_after, 8);
  EXPECT_THAT(std::move(last).value(), IsOkAndHolds(Pointee(8)));
  setter.join();
}

TEST(FutureThreadsTest, AWaitThatGaveUpDoesNotDisturbLaterOnes) {
  for (int round = 0; round < kFutureRounds / 10; ++round) {
    Promise<int> promise;
    Future<int> future = promise.future();
    std::thread setter([&] {
      std::this_thread::yield();
      promise.SetValue(1).IgnoreError();
    });
    int gave_up = 0;
    while (!future.Wait(absl::Microseconds(round % 20)).ok()) ++gave_up;
    EXPECT_THAT(future.Wait(kFutureWatchdog), IsOk());
    EXPECT_THAT(future.value(), IsOkAndHolds(1)) << gave_up;
    setter.join();
  }
}

TEST(FutureThreadsTest, EachEndMayGoAsSoonAsTheOtherIsServed) {
  for (int round = 0; round < kFutureRounds; ++round) {
    auto promise = std::make_unique<Promise<int>>();
    auto future = std::make_unique<Future<int>>(promise->future());
    std::thread waiter([future = std::move(future)]() mutable {
      EXPECT_THAT(future->Wait(kFutureWatchdog), IsOk());
      future.reset();
    });
    promise->SetValue(1).IgnoreError();
    promise.reset();
    waiter.join();
  }
}

TEST(FutureThreadsTest, AChainCrossesThreads) {
  // Each link is completed in a different thread than the previous one.
  std::vector<std::thread> threads;
  Promise<int> first;
  Future<int> last = first.future();
  for (int i = 0; i < 50; ++i) {
    last = std::move(last).Then([&threads](const absl::StatusOr<int>& value) {
      Promise<int> next;
      Future<int> future = next.future();
      threads.emplace_back([next = std::move(next), value]() mutable {
        next.SetValue(*value + 1).IgnoreError();
      });
      return future;
    });
  }
  ASSERT_THAT(first.SetValue(0), IsOk());
  EXPECT_THAT(last.Wait(kFutureWatchdog), IsOk());
  EXPECT_THAT(last.value(), IsOkAndHolds(50));
  for (std::thread& thread : threads) thread.join();
}

TEST(FutureThreadsTest, APingPongOfFutures) {
  constexpr int kBalls = 500;
  std::vector<Promise<int>> there(kBalls), back(kBalls);
  std::vector<Future<int>> arrives, returns;
  for (int i = 0; i < kBalls; ++i) {
    arrives.push_back(there[i].future());
    returns.push_back(back[i].future());
  }
  std::thread other([&] {
    for (int i = 0; i < kBalls; ++i) {
      EXPECT_THAT(arrives[i].Wait(kFutureWatchdog), IsOk());
      back[i].SetValue(arrives[i].value().value_or(-1) + 1).IgnoreError();
    }
  });
  for (int i = 0; i < kBalls; ++i) {
    EXPECT_THAT(there[i].SetValue(i), IsOk());
    EXPECT_THAT(returns[i].Wait(kFutureWatchdog), IsOk());
    EXPECT_THAT(returns[i].value(), IsOkAndHolds(i + 1));
  }
  other.join();
}

}  // namespace
}  // namespace tenon::futures
