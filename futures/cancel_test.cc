// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Future::RequestCancel and Promise::OnCancelRequest, on one thread.

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/callback_failure.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

using ::testing::ElementsAre;

int AddOne(const absl::StatusOr<int>& value) { return value.value_or(0) + 1; }

TEST(CancelTest, ThePromiseSeesTheRequestAndDecides) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  EXPECT_FALSE(promise.cancel_requested());
  future.RequestCancel();
  EXPECT_TRUE(promise.cancel_requested());
  EXPECT_FALSE(future.done());  // Only a request.
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_THAT(future.value(), IsOkAndHolds(1));
}

TEST(CancelTest, CallbacksRunOnceInOrderAndAtOnceIfItHasBeen) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  std::vector<std::string> calls;
  promise.OnCancelRequest([&] { calls.push_back("first"); });
  promise.OnCancelRequest([&] { calls.push_back("second"); });
  EXPECT_THAT(calls, ElementsAre());
  future.RequestCancel();
  future.RequestCancel();
  promise.OnCancelRequest([&] { calls.push_back("late"); });
  EXPECT_THAT(calls, ElementsAre("first", "second", "late"));
}

TEST(CancelTest, ACallbackMayComplete) {
  auto promise = std::make_shared<Promise<int>>();
  Future<int> future = promise->future();
  promise->OnCancelRequest([weak = std::weak_ptr<Promise<int>>(promise)] {
    if (const auto held = weak.lock()) {
      held->TrySetError(absl::CancelledError("as you wish"));
    }
  });
  future.RequestCancel();
  EXPECT_THAT(future.value(),
              StatusIs(absl::StatusCode::kCancelled, "as you wish"));
}

TEST(CancelTest, OnceCompleteThereIsNothingToAsk) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  auto held = std::make_shared<int>(0);
  int calls = 0;
  promise.OnCancelRequest([&calls, held] { ++calls; });
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_EQ(held.use_count(), 1);  // Dropped.
  future.RequestCancel();
  promise.OnCancelRequest([&calls] { ++calls; });
  EXPECT_EQ(calls, 0);
  EXPECT_FALSE(promise.cancel_requested());
}

TEST(CancelTest, ACallbackThatFailsIsCountedAndTheOthersRun) {
  SetCallbackFailureHandler(+[](const absl::Status&) noexcept {});
  const uint64_t failures = CallbackFailureCount();
  Promise<int> promise;
  const Future<int> future = promise.future();
  int calls = 0;
  promise.OnCancelRequest([] { throw std::runtime_error("cannot stop"); });
  promise.OnCancelRequest([] { return absl::InternalError("nor this"); });
  promise.OnCancelRequest([&calls] { ++calls; });
  future.RequestCancel();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(CallbackFailureCount(), failures + 2);
  SetCallbackFailureHandler(nullptr);
}

TEST(CancelTest, ARequestInsideACallbackComesAfterIt) {
  Promise<int> outer, inner;
  const Future<int> outer_future = outer.future();
  const Future<int> inner_future = inner.future();
  std::vector<std::string> calls;
  outer.OnCancelRequest([&] {
    inner_future.RequestCancel();
    calls.push_back("outer");
  });
  inner.OnCancelRequest([&] { calls.push_back("inner"); });
  outer_future.RequestCancel();
  EXPECT_THAT(calls, ElementsAre("outer", "inner"));
}

TEST(CancelTest, DroppingTheFutureAsksNothing) {
  Promise<int> promise;
  int calls = 0;
  promise.OnCancelRequest([&calls] { ++calls; });
  { const Future<int> future = promise.future(); }
  EXPECT_EQ(calls, 0);
  EXPECT_FALSE(promise.cancel_requested());
}

TEST(CancelTest, DroppingThePromiseDropsTheCallbacks) {
  auto held = std::make_shared<int>(0);
  Future<int> future;
  {
    Promise<int> promise;
    future = promise.future();
    promise.OnCancelRequest([held] {});
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_THAT(future.value(), StatusIs(absl::StatusCode::kAborted));
}

TEST(CancelTest, EmptyOnesDoNothing) {
  Future<int>().RequestCancel();
  Promise<int> from;
  const Promise<int> to = std::move(from);
  // NOLINTBEGIN(bugprone-use-after-move): under test.
  EXPECT_FALSE(from.cancel_requested());
  from.OnCancelRequest([] { FAIL(); });
  // NOLINTEND(bugprone-use-after-move)
}

TEST(CancelTest, ThenThatTookOverPassesOn) {
  Promise<int> promise;
  const Future<int> last = promise.future().Then(AddOne).Then(
      InlineExecutor(), [](const absl::StatusOr<int>& v) { return AddOne(v); });
  last.RequestCancel();
  EXPECT_TRUE(promise.cancel_requested());
}

TEST(CancelTest, ThenOnAnLvalueDoesNot) {
  Promise<int> promise;
  const Future<int> shared = promise.future();
  const Future<int> one = shared.Then(AddOne);
  const Future<int> other = shared.Then(
      InlineExecutor(), [](const absl::StatusOr<int>& v) { return AddOne(v); });
  one.RequestCancel();
  other.RequestCancel();
  EXPECT_FALSE(promise.cancel_requested());
}

TEST(CancelTest, ItReachesAFutureThatACallbackReturned) {
  for (const bool asked_before : {false, true}) {
    Promise<int> outer, inner;
    const Future<int> last = outer.future().Then(
        [&](absl::StatusOr<int>) { return inner.future(); });
    if (asked_before) last.RequestCancel();
    EXPECT_EQ(outer.cancel_requested(), asked_before);
    ASSERT_THAT(outer.SetValue(1), IsOk());
    if (!asked_before) last.RequestCancel();
    EXPECT_TRUE(inner.cancel_requested());
    inner.SetError(absl::CancelledError("")).IgnoreError();
    EXPECT_THAT(last.value(), StatusIs(absl::StatusCode::kCancelled));
  }
}

TEST(CancelTest, AMillionLinksPassOnWithoutRecursion) {
  Promise<int> promise;
  Future<int> last = promise.future();
  for (int i = 0; i < 1'000'000; ++i) last = std::move(last).Then(AddOne);
  last.RequestCancel();
  EXPECT_TRUE(promise.cancel_requested());
  ASSERT_THAT(promise.SetValue(0), IsOk());
  EXPECT_THAT(last.value(), IsOkAndHolds(1'000'000));
}

// Each promise is held by the cancel callback of the previous one.
Future<int> MakeChainOfHolders(int length, Promise<int>* first) {
  Promise<int> held;
  Future<int> last = held.future();
  for (int i = 0; i < length; ++i) {
    Promise<int> holder;
    holder.OnCancelRequest(
        [held = std::make_unique<Promise<int>>(std::move(held))] {});
    held = std::move(holder);
  }
  *first = std::move(held);
  return last;
}

TEST(CancelTest, AMillionPromisesThatCallbacksHoldAreDroppedWithoutRecursion) {
  Promise<int> first;
  const Future<int> last = MakeChainOfHolders(1'000'000, &first);
  EXPECT_FALSE(last.done());
  first = Promise<int>();
  EXPECT_THAT(last.value(), StatusIs(absl::StatusCode::kAborted));
}

TEST(CancelTest, OrOnceOneOfThemHasBeenAsked) {
  Promise<int> first;
  const Future<int> last = MakeChainOfHolders(1'000'000, &first);
  const Future<int> future = first.future();
  future.RequestCancel();
  EXPECT_THAT(last.value(), StatusIs(absl::StatusCode::kAborted));
}

}  // namespace
}  // namespace tenon::futures
