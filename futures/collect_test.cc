// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/collect.h"

#include <memory>
#include <type_traits>
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

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pointee;

static_assert(std::is_same_v<
              decltype(CollectAll(std::declval<std::vector<Future<int>>>())),
              Future<std::vector<int>>>);

template <typename T>
std::vector<Future<T>> FuturesOf(std::vector<Promise<T>>& promises) {
  std::vector<Future<T>> futures;
  futures.reserve(promises.size());
  for (Promise<T>& promise : promises) futures.push_back(promise.future());
  return futures;
}

auto IsErrorOfEmptyFuture() {
  return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("empty"));
}

TEST(CollectTest, AllHasTheValuesInOrderOnceTheLastIsThere) {
  std::vector<Promise<int>> promises(3);
  ASSERT_THAT(promises[1].SetValue(11), IsOk());
  Future<std::vector<int>> all = CollectAll(FuturesOf(promises));
  ASSERT_THAT(promises[2].SetValue(12), IsOk());
  EXPECT_FALSE(all.done());
  EXPECT_THAT(all.Wait(absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  ASSERT_THAT(promises[0].SetValue(10), IsOk());
  EXPECT_THAT(all.value(), IsOkAndHolds(ElementsAre(10, 11, 12)));
}

TEST(CollectTest, AllOfDoneOnesIsDone) {
  std::vector<Promise<std::unique_ptr<int>>> promises(2);
  ASSERT_THAT(promises[0].SetValue(std::make_unique<int>(1)), IsOk());
  ASSERT_THAT(promises[1].SetValue(std::make_unique<int>(2)), IsOk());
  auto all = CollectAll(FuturesOf(promises));
  EXPECT_THAT(std::move(all).value(),
              IsOkAndHolds(ElementsAre(Pointee(1), Pointee(2))));
}

TEST(CollectTest, AllEndsWithTheFirstErrorInTime) {
  std::vector<Promise<int>> promises(3);
  Future<std::vector<int>> all = CollectAll(FuturesOf(promises));
  ASSERT_THAT(promises[2].SetError(absl::DataLossError("torn")), IsOk());
  const auto is_torn = StatusIs(absl::StatusCode::kDataLoss, "torn");
  EXPECT_THAT(all.value(), is_torn);  // With one that has not completed.
  ASSERT_THAT(promises[0].SetError(absl::NotFoundError("late")), IsOk());
  ASSERT_THAT(promises[1].SetValue(1), IsOk());
  EXPECT_THAT(all.value(), is_torn);
}

TEST(CollectTest, ADroppedMemberFailsAll) {
  std::vector<Promise<int>> promises(2);
  Future<std::vector<int>> all = CollectAll(FuturesOf(promises));
  promises.pop_back();
  EXPECT_THAT(all.value(), StatusIs(absl::StatusCode::kAborted));
}

TEST(CollectTest, AllOfVoidIsVoid) {
  std::vector<Promise<void>> promises(2);
  Future<void> all = CollectAll(FuturesOf(promises));
  ASSERT_THAT(promises[0].SetValue(), IsOk());
  EXPECT_FALSE(all.done());
  ASSERT_THAT(promises[1].SetValue(), IsOk());
  EXPECT_THAT(all.value(), IsOk());

  std::vector<Promise<void>> bad(2);
  Future<void> failed = CollectAll(FuturesOf(bad));
  ASSERT_THAT(bad[1].SetError(absl::DataLossError("torn")), IsOk());
  EXPECT_THAT(failed.value(), StatusIs(absl::StatusCode::kDataLoss, "torn"));
}

TEST(CollectTest, SettledHasWhatEachEndedWith) {
  std::vector<Promise<int>> promises(3);
  auto all = CollectAllSettled(FuturesOf(promises));
  ASSERT_THAT(promises[0].SetError(absl::DataLossError("torn")), IsOk());
  ASSERT_THAT(promises[1].SetValue(1), IsOk());
  EXPECT_FALSE(all.done());
  promises.clear();
  EXPECT_THAT(all.value(),
              IsOkAndHolds(ElementsAre(StatusIs(absl::StatusCode::kDataLoss),
                                       IsOkAndHolds(1),
                                       StatusIs(absl::StatusCode::kAborted))));

  std::vector<Promise<void>> of_void(2);
  auto all_of_void = CollectAllSettled(FuturesOf(of_void));
  ASSERT_THAT(of_void[0].SetValue(), IsOk());
  of_void.clear();
  EXPECT_THAT(
      all_of_void.value(),
      IsOkAndHolds(ElementsAre(IsOk(), StatusIs(absl::StatusCode::kAborted))));
}

TEST(CollectTest, AnyIsTheFirstWithAValueOrAnError) {
  std::vector<Promise<std::unique_ptr<int>>> promises(3);
  auto any = CollectAny(FuturesOf(promises));
  ASSERT_THAT(promises[1].SetValue(std::make_unique<int>(5)), IsOk());
  ASSERT_THAT(promises[0].SetValue(std::make_unique<int>(6)), IsOk());
  ASSERT_THAT(any.value(), IsOk());
  EXPECT_EQ(any.value()->index, 1U);
  EXPECT_THAT(any.value()->result, IsOkAndHolds(Pointee(5)));
  EXPECT_FALSE(promises[2].cancel_requested());  // Continues.

  std::vector<Promise<void>> bad(2);
  auto failed = CollectAny(FuturesOf(bad));
  ASSERT_THAT(bad[1].SetError(absl::DataLossError("torn")), IsOk());
  ASSERT_THAT(failed.value(), IsOk());
  EXPECT_EQ(failed.value()->index, 1U);
  EXPECT_THAT(failed.value()->result, StatusIs(absl::StatusCode::kDataLoss));
}

TEST(CollectTest, OfNone) {
  EXPECT_THAT(CollectAll(std::vector<Future<int>>()).value(),
              IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(CollectAll(std::vector<Future<void>>()).value(), IsOk());
  EXPECT_THAT(CollectAllSettled(std::vector<Future<int>>()).value(),
              IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(CollectAny(std::vector<Future<int>>()).value(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  std::vector<Future<int>> none;
  EXPECT_THAT(WaitAll(none, absl::ZeroDuration()), IsOkAndHolds(IsEmpty()));
  std::vector<Future<void>> none_of_void;
  EXPECT_THAT(WaitAll(none_of_void, absl::ZeroDuration()), IsOk());
}

TEST(CollectTest, AnEmptyFutureAmongThemHasFailed) {
  const auto with_empty = [](Promise<int>& promise) {
    std::vector<Future<int>> futures;
    futures.push_back(promise.future());
    futures.emplace_back();
    return futures;
  };
  Promise<int> for_all, for_settled, for_any, for_wait;
  EXPECT_THAT(CollectAll(with_empty(for_all)).value(), IsErrorOfEmptyFuture());
  auto settled = CollectAllSettled(with_empty(for_settled));
  ASSERT_THAT(for_settled.SetValue(1), IsOk());
  EXPECT_THAT(settled.value(), IsOkAndHolds(ElementsAre(
                                   IsOkAndHolds(1), IsErrorOfEmptyFuture())));
  auto any = CollectAny(with_empty(for_any));
  ASSERT_THAT(any.value(), IsOk());
  EXPECT_EQ(any.value()->index, 1U);
  EXPECT_THAT(any.value()->result, IsErrorOfEmptyFuture());
  std::vector<Future<int>> waited_for = with_empty(for_wait);
  EXPECT_THAT(WaitAll(waited_for), IsErrorOfEmptyFuture());
}

TEST(CollectTest, AskingItAsksAll) {
  std::vector<Promise<int>> promises(3);
  const auto all = CollectAll(FuturesOf(promises)).Then([](const auto&) {});
  all.RequestCancel();
  for (Promise<int>& promise : promises) {
    EXPECT_TRUE(promise.cancel_requested());
  }
}

TEST(CollectTest, WhatItWasGivenGoesWhenAllAreDone) {
  auto held = std::make_shared<int>(0);
  std::vector<Promise<std::shared_ptr<int>>> promises(3);
  auto all = CollectAll(FuturesOf(promises));
  ASSERT_THAT(promises[0].SetValue(held), IsOk());
  ASSERT_THAT(promises[1].SetError(absl::DataLossError("torn")), IsOk());
  EXPECT_TRUE(all.done());
  promises.clear();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(CollectTest, AHundredThousandAreLinear) {
  std::vector<Promise<int>> promises(100'000);
  Future<std::vector<int>> all = CollectAll(FuturesOf(promises));
  for (Promise<int>& promise : promises) {
    ASSERT_THAT(promise.SetValue(1), IsOk());
  }
  ASSERT_THAT(all.value(), IsOk());
  EXPECT_EQ(all.value()->size(), 100'000U);
}

TEST(CollectTest, ALongNestOfThemDoesNotRecurse) {
  Promise<void> innermost;
  Future<void> all = innermost.future();
  for (int i = 0; i < 200'000; ++i) {
    std::vector<Future<void>> one;
    one.push_back(std::move(all));
    all = CollectAll(std::move(one));
  }
  all.RequestCancel();
  EXPECT_TRUE(innermost.cancel_requested());
  ASSERT_THAT(innermost.SetValue(), IsOk());
  EXPECT_THAT(all.value(), IsOk());
}

TEST(CollectTest, WaitAllMovesTheValuesOut) {
  std::vector<Promise<std::unique_ptr<int>>> promises(2);
  auto futures = FuturesOf(promises);
  ASSERT_THAT(promises[1].SetValue(std::make_unique<int>(2)), IsOk());
  ASSERT_THAT(promises[0].SetValue(std::make_unique<int>(1)), IsOk());
  EXPECT_THAT(WaitAll(futures),
              IsOkAndHolds(ElementsAre(Pointee(1), Pointee(2))));
  EXPECT_THAT(futures[0].value(), IsErrorOfEmptyFuture());
}

TEST(CollectTest, WaitAllThatFailsLeavesTheFutures) {
  std::vector<Promise<int>> promises(3);
  auto futures = FuturesOf(promises);
  ASSERT_THAT(promises[0].SetValue(1), IsOk());
  EXPECT_THAT(WaitAll(futures, absl::Milliseconds(1)),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("2 of 3 futures")));
  ASSERT_THAT(promises[2].SetError(absl::DataLossError("torn")), IsOk());
  EXPECT_THAT(WaitAll(futures), StatusIs(absl::StatusCode::kDataLoss, "torn"));
  ASSERT_THAT(promises[1].SetValue(2), IsOk());
  EXPECT_THAT(WaitAll(futures), StatusIs(absl::StatusCode::kDataLoss, "torn"));
  EXPECT_THAT(futures[0].value(), IsOkAndHolds(1));
  EXPECT_THAT(futures[1].value(), IsOkAndHolds(2));

  std::vector<Promise<void>> of_void(1);
  auto void_futures = FuturesOf(of_void);
  EXPECT_THAT(WaitAll(void_futures, absl::ZeroDuration()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  ASSERT_THAT(of_void[0].SetValue(), IsOk());
  EXPECT_THAT(WaitAll(void_futures), IsOk());
}

TEST(CollectTest, WaitAllInACallback) {
  Promise<int> outer, inner;
  std::vector<Future<int>> own, others;
  own.push_back(outer.future());
  others.push_back(inner.future().Then(
      [](const absl::StatusOr<int>& value) { return *value + 1; }));
  int calls = 0;
  own[0].AddDoneCallback([&](const auto&) {
    // In a callback of the same future: it is done, but cannot be moved out
    // yet.
    EXPECT_THAT(WaitAll(own), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("cannot be moved out")));
    EXPECT_THAT(inner.SetValue(1), IsOk());
    EXPECT_THAT(WaitAll(others, absl::Minutes(1)),
                IsOkAndHolds(ElementsAre(2)));
    ++calls;
  });
  ASSERT_THAT(outer.SetValue(0), IsOk());
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(WaitAll(own), IsOkAndHolds(ElementsAre(0)));
}

}  // namespace
}  // namespace tenon::futures
