// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Chains so long that the stack would overflow many times over if a link took a
// frame, on the way forward or on destruction.

#include <sys/resource.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/async.h"
#include "tenon/futures/coroutine.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

constexpr int kManyLinks = 200'000;
constexpr rlim_t kStack = rlim_t{1} << 20;  // 5 bytes per link.

class FutureChainTest : public testing::Test {
 protected:
  // The kernel reads the limit whenever the main thread's stack grows.
  static void SetUpTestSuite() {
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
    limit.rlim_cur = kStack;
    ASSERT_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
  }
};

int AddOne(const absl::StatusOr<int>& value) { return *value + 1; }

TEST_F(FutureChainTest, ManyLinksDoNotRecurse) {
  Promise<int> promise;
  Future<int> last = promise.future();
  for (int i = 0; i < kManyLinks; ++i) last = std::move(last).Then(AddOne);
  ASSERT_THAT(promise.SetValue(0), IsOk());
  EXPECT_THAT(last.value(), IsOkAndHolds(kManyLinks));
}

TEST_F(FutureChainTest, ManyLinksFailAndGoWithoutRecursion) {
  int calls = 0;
  {
    Promise<void> promise;
    Future<void> last = promise.future();
    for (int i = 0; i < kManyLinks; ++i) {
      last = std::move(last).Then([&calls](absl::Status status) {
        ++calls;
        return status;
      });
    }
  }
  EXPECT_EQ(calls, kManyLinks);
}

TEST_F(FutureChainTest, ManyFlattenedLinksDoNotRecurse) {
  // Each future is the inner one of the next: the last to come is the first.
  Promise<int> innermost;
  Future<int> last = innermost.future();
  for (int i = 0; i < kManyLinks; ++i) {
    Promise<void> go;
    Future<int> next =
        go.future().Then([inner = std::move(last)](absl::Status) mutable {
          return std::move(inner);
        });
    ASSERT_THAT(go.SetValue(), IsOk());
    last = std::move(next);
  }
  EXPECT_FALSE(last.done());
  ASSERT_THAT(innermost.SetValue(4), IsOk());
  EXPECT_THAT(last.value(), IsOkAndHolds(4));
}

TEST_F(FutureChainTest, ManyCallbacksThatReturnFuturesDoNotRecurse) {
  Promise<int> promise;
  Future<int> last = promise.future();
  for (int i = 0; i < kManyLinks; ++i) {
    last = std::move(last).Then([](const absl::StatusOr<int>& value) {
      return ReadyFuture(AddOne(value));
    });
  }
  ASSERT_THAT(promise.SetValue(0), IsOk());
  EXPECT_THAT(last.value(), IsOkAndHolds(kManyLinks));
}

TEST_F(FutureChainTest, ManyStepsOfALoopOfFuturesDoNotRecurse) {
  // Each step returns the future of the next: the first is done last.
  struct Loop {
    Future<int> From(int i) {
      if (i == kManyLinks) return ReadyFuture(i);
      step = Promise<void>();
      return step.future().Then(
          [this, i](absl::Status) { return From(i + 1); });
    }
    Promise<void> step;
  } loop;
  Future<int> last = loop.From(0);
  for (int i = 0; i < kManyLinks; ++i) {
    Promise<void> step = std::move(loop.step);
    ASSERT_THAT(step.SetValue(), IsOk());
  }
  EXPECT_THAT(last.value(), IsOkAndHolds(kManyLinks));
}

TEST_F(FutureChainTest, ManyLinksOnAnExecutorDoNotRecurse) {
  Promise<int> promise;
  Future<int> last = promise.future();
  for (int i = 0; i < kManyLinks; ++i) {
    last = std::move(last).Then(
        InlineExecutor(),
        [](const absl::StatusOr<int>& v) { return AddOne(v); });
  }
  ASSERT_THAT(promise.SetValue(0), IsOk());
  EXPECT_THAT(last.value(), IsOkAndHolds(kManyLinks));
}

Future<int> AwaitAndAddOne(Future<int> before) {
  const absl::StatusOr<int> value = co_await std::move(before);
  if (!value.ok()) co_return value.status();
  co_return *value + 1;
}

TEST_F(FutureChainTest, ManyCoroutinesDoNotRecurse) {
  for (const bool asked : {false, true}) {
    Promise<int> promise;
    Future<int> last = promise.future();
    for (int i = 0; i < kManyLinks; ++i) last = AwaitAndAddOne(std::move(last));
    if (asked) last.RequestCancel();
    EXPECT_EQ(promise.cancel_requested(), asked);
    ASSERT_THAT(promise.SetValue(0), IsOk());
    EXPECT_THAT(last.value(), IsOkAndHolds(kManyLinks));
  }
}

Future<int> AwaitInALoop(std::vector<Promise<int>>& promises) {
  int sum = 0;
  for (Promise<int>& promise : promises) {
    sum += (co_await promise.future()).value_or(0);
    co_await ResumeOn(InlineExecutor());
  }
  co_return sum;
}

TEST_F(FutureChainTest, ManyWaitsOfACoroutineDoNotRecurse) {
  for (const bool are_there : {true, false}) {
    std::vector<Promise<int>> promises(kManyLinks);
    Future<int> sum;
    if (!are_there) sum = AwaitInALoop(promises);
    for (Promise<int>& promise : promises) {
      ASSERT_THAT(promise.SetValue(1), IsOk());
    }
    if (are_there) sum = AwaitInALoop(promises);
    EXPECT_THAT(sum.value(), IsOkAndHolds(kManyLinks));
  }
}

TEST_F(FutureChainTest, ManyPromisesKeptByCallbacksDoNotRecurse) {
  std::vector<Promise<int>> promises(kManyLinks);
  Future<int> last = promises.back().future();
  for (int i = 0; i + 1 < kManyLinks; ++i) {
    promises[i].future().AddDoneCallback(
        [next = &promises[i + 1]](const absl::StatusOr<int>& v) {
          next->SetValue(*v + 1).IgnoreError();
        });
  }
  ASSERT_THAT(promises.front().SetValue(1), IsOk());
  EXPECT_THAT(last.value(), IsOkAndHolds(kManyLinks));
}

TEST_F(FutureChainTest, ManyPromisesDroppedByCallbacksDoNotRecurse) {
  Promise<int> first;
  Future<int> last;
  {
    Promise<int> promise;
    last = promise.future();
    for (int i = 0; i < kManyLinks; ++i) {
      Promise<int> before;
      before.future().AddDoneCallback(
          [held = std::move(promise)](const auto&) {});
      promise = std::move(before);
    }
    first = std::move(promise);
  }
  EXPECT_FALSE(last.done());
  ASSERT_THAT(first.SetValue(1), IsOk());
  EXPECT_THAT(last.value(), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(FutureChainTest, ManyCallbacksOfOneFuture) {
  Promise<int> promise;
  Future<int> future = promise.future();
  int calls = 0;
  for (int i = 0; i < kManyLinks; ++i) {
    future.AddDoneCallback([&calls, i](const auto&) {
      if (calls == i) ++calls;  // Never catches up if one is misplaced.
    });
  }
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_EQ(calls, kManyLinks);
}

}  // namespace
}  // namespace tenon::futures
