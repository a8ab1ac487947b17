// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/wait_helper.h"

#include <atomic>
#include <chrono>
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
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures::internal_future {
namespace {

using Time = std::chrono::steady_clock::time_point;

constexpr absl::Duration kHelpWatchdog = absl::Minutes(1);
constexpr int kHelpRounds = 2'000;

class Calling final : public WaitHelper {
 public:
  explicit Calling(std::function<void(Time)> call) : call_(std::move(call)) {}
  void Help(Time deadline) override { call_(deadline); }

 private:
  std::function<void(Time)> call_;
};

template <typename T>
Promise<T> HelpedBy(std::function<void(Time)> call) {
  Promise<T> promise;
  SetWaitHelper(promise, std::make_shared<Calling>(std::move(call)));
  return promise;
}

TEST(WaitHelperTest, WhoWaitsCompletesAndRunsTheCallbacks) {
  Promise<int> promise;
  promise = HelpedBy<int>([&](Time) { promise.TrySetValue(7); });
  Future<int> future = promise.future();
  std::thread::id called_on;
  future.AddDoneCallback(
      [&](const auto&) { called_on = std::this_thread::get_id(); });
  ASSERT_THAT(future.Wait(kHelpWatchdog), IsOk());
  EXPECT_EQ(called_on, std::this_thread::get_id());
  EXPECT_THAT(std::move(future).value(), IsOkAndHolds(7));
}

TEST(WaitHelperTest, IsAskedOncePerWaitAndOnlyIfItWouldBlock) {
  int asked = 0;
  Promise<int> promise = HelpedBy<int>([&](Time) { ++asked; });
  Future<int> future = promise.future();
  EXPECT_FALSE(future.done());
  EXPECT_THAT(future.Wait(absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(asked, 0);
  EXPECT_THAT(future.Wait(absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(asked, 1);
  ASSERT_THAT(promise.SetValue(1), IsOk());
  ASSERT_THAT(future.Wait(kHelpWatchdog), IsOk());
  EXPECT_EQ(asked, 1);
}

TEST(WaitHelperTest, KnowsTheDeadline) {
  std::vector<Time> deadlines;
  Promise<void> promise;
  promise = HelpedBy<void>([&](Time deadline) {
    deadlines.push_back(deadline);
    if (deadlines.size() == 2) promise.TrySetValue();
  });
  Future<void> future = promise.future();
  const Time before = std::chrono::steady_clock::now();
  EXPECT_THAT(future.Wait(absl::Milliseconds(5)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  ASSERT_THAT(future.Wait(), IsOk());
  ASSERT_EQ(deadlines.size(), 2u);
  EXPECT_GE(deadlines[0], before + std::chrono::milliseconds(5));
  EXPECT_LT(deadlines[0], Time::max());
  EXPECT_EQ(deadlines[1], Time::max());
}

TEST(WaitHelperTest, OneThatDoesNothingLeavesTheWaitAsItIs) {
  Promise<int> promise = HelpedBy<int>([](Time) {});
  Future<int> future = promise.future();
  std::thread setter([&] { promise.SetValue(3).IgnoreError(); });
  ASSERT_THAT(future.Wait(kHelpWatchdog), IsOk());
  EXPECT_THAT(std::move(future).value(), IsOkAndHolds(3));
  setter.join();
}

// A callback that waits for a future whose own callbacks are deferred until it
// returns, like those of every future completed inside a callback.
TEST(WaitHelperTest, HelpsInsideACallback) {
  Promise<int> inner;
  inner = HelpedBy<int>([&](Time) { inner.TrySetValue(1); });
  Future<int> waited = inner.future();
  bool inner_ran = false;
  waited.AddDoneCallback([&](const auto&) { inner_ran = true; });
  Promise<int> outer;
  absl::Status status = absl::UnknownError("not called");
  bool ran_before_wait_was_over = false;
  outer.future().AddDoneCallback([&](const auto&) {
    status = waited.Wait(kHelpWatchdog);
    ran_before_wait_was_over = inner_ran;
  });
  ASSERT_THAT(outer.SetValue(0), IsOk());
  EXPECT_THAT(status, IsOk());
  EXPECT_TRUE(ran_before_wait_was_over);
}

TEST(WaitHelperTest, HelpsThoseWhoWaitForWhatIsMadeOfIt) {
  for (const bool lvalue : {false, true}) {
    Promise<int> promise;
    promise = HelpedBy<int>([&](Time) { promise.TrySetValue(7); });
    Future<int> source = promise.future();
    const auto twice = [](absl::StatusOr<int> x) { return x.value_or(0) * 2; };
    Future<int> made =
        lvalue ? source.Then(twice) : std::move(source).Then(twice);
    const Future<int> last = made.Then(twice);
    ASSERT_THAT(last.Wait(kHelpWatchdog), IsOk());
    EXPECT_THAT(last.value(), IsOkAndHolds(28));
  }
}

TEST(WaitHelperTest, LivesAsLongAsTheFuture) {
  auto alive = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = alive;
  Promise<int> promise =
      HelpedBy<int>([alive = std::move(alive)](Time) { ++*alive; });
  Future<int> future = promise.future();
  ASSERT_THAT(promise.SetValue(1), IsOk());
  promise = Promise<int>();
  EXPECT_FALSE(watch.expired());
  future = Future<int>();
  EXPECT_TRUE(watch.expired());
}

// Several threads wait, and each of their helpers may complete the promise.
TEST(WaitHelperTest, RacesWithAllOthers) {
  for (int round = 0; round < kHelpRounds; ++round) {
    int plain = 0;
    std::atomic<bool> taken = false;
    Promise<int> promise;
    const auto complete = [&] {
      if (taken.exchange(true)) return;
      plain = round;
      promise.TrySetValue(round);
    };
    promise = HelpedBy<int>([&](Time) { complete(); });
    const Future<int> future = promise.future();
    const auto wait = [&] {
      ASSERT_THAT(future.Wait(kHelpWatchdog), IsOk());
      EXPECT_EQ(plain, round);
    };
    std::thread second(wait);
    std::thread completer(complete);
    wait();
    second.join();
    completer.join();
  }
}

}  // namespace
}  // namespace tenon::futures::internal_future
