// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/coroutine.h"

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/async.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

using ::testing::HasSubstr;
using ::testing::Pointee;

// Keeps the last task.
class Keeper final : public Executor {
 public:
  void Execute(Task task) override { kept = std::move(task); }
  Task kept{[] {}};
};

class Thrower final : public Executor {
  void Execute(Task /*task*/) override {
    throw std::runtime_error("queue full");
  }
};

int Expensive() { return 40; }

Future<int> Total(Future<int> a, Executor& pool) {
  absl::StatusOr<int> first = co_await std::move(a);
  if (!first.ok()) co_return first.status();
  co_await ResumeOn(pool);
  co_return *first + Expensive();
}

TEST(CoroutineTest, ExampleOfTheHeader) {
  Promise<int> promise;
  Future<int> total = Total(promise.future(), InlineExecutor());
  ASSERT_THAT(promise.SetValue(2), IsOk());
  EXPECT_THAT(total.value(), IsOkAndHolds(42));
}

Future<int> Sum(Future<int> a, Future<int> b) {
  absl::StatusOr<int> first = co_await std::move(a);
  if (!first.ok()) co_return first.status();
  absl::StatusOr<int> second = co_await std::move(b);
  if (!second.ok()) co_return second.status();
  co_return *first + *second;
}

TEST(CoroutineTest, RunsToItsFirstWaitAndGoesOnWhenTheValueComes) {
  Promise<int> a, b;
  Future<int> sum = Sum(a.future(), b.future());
  ASSERT_THAT(b.SetValue(2), IsOk());
  EXPECT_FALSE(sum.done());
  ASSERT_THAT(a.SetValue(1), IsOk());
  EXPECT_THAT(sum.value(), IsOkAndHolds(3));
}

TEST(CoroutineTest, WithEverythingThereItIsDoneWhenItReturns) {
  Future<int> sum = Sum(ReadyFuture(1), ReadyFuture(2));
  EXPECT_THAT(sum.value(), IsOkAndHolds(3));
}

TEST(CoroutineTest, ErrorsArriveAlsoFromDroppedPromisesAndEmptyFutures) {
  auto a = std::make_unique<Promise<int>>();
  Future<int> sum = Sum(a->future(), ReadyFuture(1));
  a.reset();
  EXPECT_THAT(sum.value(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Sum(ReadyFuture(1), Future<int>()).value(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

Future<void> Append(Future<std::string> text, std::string& to) {
  const absl::StatusOr<std::string> got = co_await std::move(text);
  if (!got.ok()) co_return got.status();
  to += *got;
  co_return absl::OkStatus();
}

TEST(CoroutineTest, VoidCarriesAStatus) {
  std::string text;
  Promise<std::string> good;
  Future<void> done = Append(good.future(), text);
  ASSERT_THAT(good.SetValue("abc"), IsOk());
  EXPECT_THAT(done.value(), IsOk());
  EXPECT_EQ(text, "abc");
  Promise<std::string> bad;
  Future<void> failed = Append(bad.future(), text);
  ASSERT_THAT(bad.SetError(absl::DataLossError("torn")), IsOk());
  EXPECT_THAT(failed.value(), StatusIs(absl::StatusCode::kDataLoss, "torn"));
}

Future<std::unique_ptr<int>> Pass(Future<std::unique_ptr<int>> in) {
  co_return co_await std::move(in);
}

TEST(CoroutineTest, MoveOnlyValuesTravel) {
  Promise<std::unique_ptr<int>> promise;
  Future<std::unique_ptr<int>> last = Pass(Pass(promise.future()));
  auto sent = std::make_unique<int>(9);
  const int* const address = sent.get();
  ASSERT_THAT(promise.SetValue(std::move(sent)), IsOk());
  ASSERT_THAT(last.value(), IsOkAndHolds(Pointee(9)));
  EXPECT_EQ(std::move(last).value()->get(), address);
}

Future<int> Peek(const Future<int>& shared) {
  const absl::StatusOr<int>& value = co_await shared;
  co_return value;
}

TEST(CoroutineTest, AnLvalueIsLeftWhereItIs) {
  Promise<int> promise;
  const Future<int> shared = promise.future();
  Future<int> one = Peek(shared), other = Peek(shared);
  ASSERT_THAT(promise.SetValue(4), IsOk());
  EXPECT_THAT(one.value(), IsOkAndHolds(4));
  EXPECT_THAT(other.value(), IsOkAndHolds(4));
  EXPECT_THAT(shared.value(), IsOkAndHolds(4));
  EXPECT_THAT(Peek(shared).value(), IsOkAndHolds(4));
}

Future<int> Throw(Future<void> when) {
  const absl::Status status = co_await std::move(when);
  if (status.ok()) throw std::runtime_error("no such tensor");
  co_return 1;
}

TEST(CoroutineTest, AnExceptionIsAnError) {
  const auto is_thrown =
      StatusIs(absl::StatusCode::kUnknown, HasSubstr("no such tensor"));
  EXPECT_THAT(Throw(ReadyFuture()).value(), is_thrown);
  Promise<void> promise;
  Future<int> later = Throw(promise.future());
  ASSERT_THAT(promise.SetValue(), IsOk());
  EXPECT_THAT(later.value(), is_thrown);
}

Future<int> Hold(std::shared_ptr<int> parameter, Future<int> value) {
  const std::shared_ptr<int> local = parameter;
  co_return co_await std::move(value);
}

TEST(CoroutineTest, WhatItHeldIsGoneBeforeItsFutureIsDone) {
  auto held = std::make_shared<int>(0);
  Promise<int> promise;
  Future<int> future = Hold(held, promise.future());
  EXPECT_EQ(held.use_count(), 3);
  long seen = 0;  // NOLINT(google-runtime-int): use_count's type.
  future.AddDoneCallback([&](const auto&) { seen = held.use_count(); });
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_EQ(seen, 1);
}

TEST(CoroutineTest, ACoroutineWhoseFutureIsDroppedGoesOn) {
  std::string text;
  Promise<std::string> promise;
  { const Future<void> dropped = Append(promise.future(), text); }
  ASSERT_THAT(promise.SetValue("abc"), IsOk());
  EXPECT_EQ(text, "abc");
}

Future<int> Ask(Future<int> first, Future<int> second) {
  (co_await std::move(first)).IgnoreError();
  const bool asked = co_await CancelRequested();
  if (asked) co_return absl::CancelledError("asked");
  co_return co_await std::move(second);
}

TEST(CoroutineTest, ARequestReachesWhatItWaitsForAndItself) {
  Promise<int> first, second;
  const Future<int> future = Ask(first.future(), second.future());
  future.RequestCancel();
  EXPECT_TRUE(first.cancel_requested());
  EXPECT_FALSE(second.cancel_requested());
  ASSERT_THAT(first.SetValue(1), IsOk());
  EXPECT_THAT(future.value(), StatusIs(absl::StatusCode::kCancelled, "asked"));
}

TEST(CoroutineTest, ARequestReachesWhatItWaitsForNext) {
  Promise<int> first, second, third;
  Future<int> future = Ask(first.future(), second.future());
  ASSERT_THAT(first.SetValue(1), IsOk());
  EXPECT_FALSE(future.done());
  future.RequestCancel();
  EXPECT_TRUE(second.cancel_requested());

  Promise<int> waited;
  const Future<int> sum = Sum(third.future(), waited.future());
  sum.RequestCancel();
  ASSERT_THAT(third.SetValue(1), IsOk());
  EXPECT_TRUE(waited.cancel_requested());
}

TEST(CoroutineTest, ARequestLeavesAnLvalueAlone) {
  Promise<int> promise;
  const Future<int> shared = promise.future();
  const Future<int> peek = Peek(shared);
  peek.RequestCancel();
  EXPECT_FALSE(promise.cancel_requested());
}

Future<int> On(Executor& executor, std::shared_ptr<int> held) {
  co_await ResumeOn(executor);
  co_return ++*held;
}

TEST(CoroutineTest, ResumeOnGoesOnWhereItWasToldTo) {
  Keeper keeper;
  auto held = std::make_shared<int>(0);
  Future<int> future = On(keeper, held);
  EXPECT_FALSE(future.done());
  std::move(keeper.kept).Run();
  EXPECT_THAT(future.value(), IsOkAndHolds(1));
  EXPECT_THAT(On(InlineExecutor(), held).value(), IsOkAndHolds(2));
}

TEST(CoroutineTest, ADroppedTaskEndsTheCoroutine) {
  auto held = std::make_shared<int>(0);
  Keeper keeper;
  Future<int> future = On(keeper, held);
  keeper.kept = Task([] {});
  EXPECT_THAT(future.value(), StatusIs(absl::StatusCode::kAborted));
  Thrower thrower;
  EXPECT_THAT(On(thrower, held).value(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(*held, 0);
}

TEST(CoroutineTest, WhatItHeldIsGoneBeforeItsFutureIsDoneAlsoIfDropped) {
  auto held = std::make_shared<int>(0);
  Keeper keeper;
  Future<int> future = On(keeper, held);
  long seen = 0;  // NOLINT(google-runtime-int): use_count's type.
  future.AddDoneCallback([&](const auto&) { seen = held.use_count(); });
  keeper.kept = Task([] {});
  EXPECT_THAT(future.value(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace tenon::futures
