// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/future.h"

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

using ::testing::HasSubstr;
using ::testing::Pointee;

static_assert(!std::is_copy_constructible_v<Future<int>>);
static_assert(!std::is_copy_assignable_v<Future<int>>);
static_assert(std::is_nothrow_move_constructible_v<Future<int>>);
static_assert(std::is_nothrow_move_assignable_v<Future<int>>);
// Not copyable into a file or to another process.
static_assert(!std::is_trivially_copyable_v<Future<int>>);
static_assert(!std::is_copy_constructible_v<Promise<int>>);
static_assert(std::is_nothrow_move_constructible_v<Promise<int>>);
static_assert(std::is_nothrow_move_assignable_v<Promise<int>>);
static_assert(std::is_same_v<Result<int>, absl::StatusOr<int>>);
static_assert(std::is_same_v<Result<void>, absl::Status>);

// The type of future that Then returns for a callback that returns R.
template <typename R>
using MadeOf = decltype(std::declval<Future<int>>().Then(
    std::declval<R (*)(absl::StatusOr<int>)>()));
static_assert(std::is_same_v<MadeOf<void>, Future<void>>);
static_assert(std::is_same_v<MadeOf<absl::Status>, Future<void>>);
static_assert(std::is_same_v<MadeOf<char>, Future<char>>);
static_assert(std::is_same_v<MadeOf<const std::string&>, Future<std::string>>);
static_assert(std::is_same_v<MadeOf<absl::StatusOr<char>>, Future<char>>);
static_assert(std::is_same_v<MadeOf<Future<char>>, Future<char>>);
static_assert(std::is_same_v<MadeOf<Future<void>>, Future<void>>);

auto IsPending() {
  return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not done"));
}
auto IsEmptyFuture() {
  return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("empty"));
}
auto IsAlreadyComplete() {
  return StatusIs(absl::StatusCode::kFailedPrecondition,
                  HasSubstr("already complete"));
}
auto IsDropped() {
  return StatusIs(absl::StatusCode::kAborted, HasSubstr("dropped"));
}

template <typename T>
Future<T> Ready(T value) {
  Promise<T> promise;
  promise.SetValue(std::move(value)).IgnoreError();
  return promise.future();
}

// Whose promise is gone.
template <typename T>
Future<T> Dropped() {
  return Promise<T>().future();
}

// Adds one to a value and passes an error on.
absl::StatusOr<int> PlusOne(const absl::StatusOr<int>& value) {
  if (!value.ok()) return value.status();
  return *value + 1;
}

TEST(FutureTest, ExampleOfTheHeader) {
  Promise<int> promise;
  Future<std::string> text =
      promise.future().Then([](absl::StatusOr<int> count) {
        return count.ok() ? absl::StrCat(*count, " samples") : "none";
      });
  std::thread worker([&] { promise.SetValue(64).IgnoreError(); });
  EXPECT_THAT(text.Wait(absl::Minutes(1)), IsOk());
  EXPECT_THAT(std::move(text).value(), IsOkAndHolds("64 samples"));
  worker.join();
}

TEST(FutureTest, IsPendingUntilCompleted) {
  Promise<int> promise;
  Future<int> future = promise.future();
  EXPECT_FALSE(future.done());
  EXPECT_THAT(future.value(), IsPending());
  EXPECT_THAT(std::move(future).value(), IsPending());
  // NOLINTBEGIN(bugprone-use-after-move): not moved, as it is pending.
  const auto times_out = StatusIs(absl::StatusCode::kDeadlineExceeded,
                                  HasSubstr("there is no result"));
  EXPECT_THAT(future.Wait(absl::ZeroDuration()), times_out);
  EXPECT_THAT(future.Wait(-absl::InfiniteDuration()), times_out);
  EXPECT_THAT(future.Wait(absl::Milliseconds(1)), times_out);

  ASSERT_THAT(promise.SetValue(7), IsOk());
  EXPECT_TRUE(future.done());
  EXPECT_THAT(future.Wait(), IsOk());
  EXPECT_THAT(future.Wait(absl::ZeroDuration()), IsOk());
  EXPECT_THAT(future.value(), IsOkAndHolds(7));
  EXPECT_THAT(future.value(), IsOkAndHolds(7));
  // NOLINTEND(bugprone-use-after-move)
}

TEST(FutureTest, GetWaitsAndCopiesOrMoves) {
  Promise<std::unique_ptr<int>> promise;
  Future<std::unique_ptr<int>> future = promise.future();
  const auto times_out = StatusIs(absl::StatusCode::kDeadlineExceeded,
                                  HasSubstr("there is no result"));
  // NOLINTBEGIN(bugprone-use-after-move): not moved, as it is pending.
  EXPECT_THAT(std::move(future).Get(absl::Milliseconds(1)), times_out);
  EXPECT_THAT(std::move(future).Get(Deadline::Passed()), times_out);
  std::thread worker(
      [&] { promise.SetValue(std::make_unique<int>(7)).IgnoreError(); });
  EXPECT_THAT(std::move(future).Get(absl::Minutes(1)),
              IsOkAndHolds(Pointee(7)));
  worker.join();
  EXPECT_THAT(std::move(future).Get(), IsEmptyFuture());
  // NOLINTEND(bugprone-use-after-move)

  const Future<int> copied = Ready(8);
  EXPECT_THAT(copied.Get(), IsOkAndHolds(8));
  EXPECT_THAT(copied.Get(Deadline::Never()), IsOkAndHolds(8));
  EXPECT_THAT(Dropped<int>().Get(), IsDropped());
  EXPECT_THAT(Dropped<void>().Get(), IsDropped());
}

TEST(FutureTest, ThenValueIsCalledWithValues) {
  // What a callback returns is what Then() makes of it.
  const Future<int> three = Ready(3);
  EXPECT_THAT(three.ThenValue([](const int& i) { return i + 1; }).Get(),
              IsOkAndHolds(4));
  EXPECT_THAT(three
                  .ThenValue([](int i) -> absl::StatusOr<std::string> {
                    return absl::StrCat(i);
                  })
                  .Get(),
              IsOkAndHolds("3"));
  EXPECT_THAT(three.ThenValue([](int i) { return Ready(2 * i); }).Get(),
              IsOkAndHolds(6));
  EXPECT_THAT(
      three.ThenValue([](int) { return absl::DataLossError("torn"); }).Get(),
      StatusIs(absl::StatusCode::kDataLoss, "torn"));
  int sum = 0;
  const Future<void> added = three.ThenValue([&](int i) { sum += i; });
  EXPECT_THAT(added.Get(), IsOk());
  EXPECT_THAT(added.ThenValue([] { return 5; }).Get(), IsOkAndHolds(5));
  EXPECT_EQ(sum, 3);

  // Moved in, and out.
  EXPECT_THAT(Ready(std::make_unique<int>(1))
                  .ThenValue([](std::unique_ptr<int> one) { return one; })
                  .Get(),
              IsOkAndHolds(Pointee(1)));
}

TEST(FutureTest, ThenValuePassesErrorsOn) {
  bool called = false;
  const auto call = [&](auto&&...) { called = true; };
  Promise<int> promise;
  const Future<int> future = promise.future();
  const Future<void> on_lvalue = future.ThenValue(call);
  Future<std::string> chained =
      future.ThenValue([](int) { return 1; })
          .ThenValue([](int) { return Ready(2); })
          .ThenValue([](int) -> std::string { return "not reached"; });
  ASSERT_THAT(promise.SetError(absl::NotFoundError("no such file")), IsOk());
  const auto is_error = StatusIs(absl::StatusCode::kNotFound, "no such file");
  EXPECT_THAT(on_lvalue.Get(), is_error);
  EXPECT_THAT(std::move(chained).Get(), is_error);
  EXPECT_THAT(Dropped<void>().ThenValue(call).Get(), IsDropped());
  EXPECT_FALSE(called);
  const Future<int> thrown =
      Ready(1).ThenValue([](int) -> int { throw std::runtime_error("odd"); });
  EXPECT_THAT(thrown.Get(),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("odd")));
}

TEST(FutureTest, CarriesAnError) {
  Promise<int> promise;
  Future<int> future = promise.future();
  ASSERT_THAT(promise.SetError(absl::NotFoundError("no such file")), IsOk());
  EXPECT_TRUE(future.done());
  EXPECT_THAT(future.Wait(), IsOk());
  EXPECT_THAT(future.value(),
              StatusIs(absl::StatusCode::kNotFound, "no such file"));
}

TEST(FutureTest, VoidCarriesAStatus) {
  Promise<void> good;
  Future<void> good_future = good.future();
  EXPECT_THAT(good_future.value(), IsPending());
  ASSERT_THAT(good.SetValue(), IsOk());
  EXPECT_FALSE(good.TrySetValue());
  EXPECT_THAT(good_future.value(), IsOk());

  Promise<void> bad;
  Future<void> bad_future = bad.future();
  EXPECT_TRUE(bad.TrySetError(absl::DataLossError("torn")));
  EXPECT_THAT(bad.SetValue(), IsAlreadyComplete());
  EXPECT_THAT(bad_future.value(),
              StatusIs(absl::StatusCode::kDataLoss, "torn"));
}

TEST(FutureTest, SecondCompletionChangesNothing) {
  Promise<std::shared_ptr<int>> promise;
  Future<std::shared_ptr<int>> future = promise.future();
  int calls = 0;
  future.AddDoneCallback([&](const auto&) { ++calls; });
  ASSERT_THAT(promise.SetValue(std::make_shared<int>(1)), IsOk());

  auto late = std::make_shared<int>(2);
  EXPECT_THAT(promise.SetValue(late), IsAlreadyComplete());
  EXPECT_THAT(promise.SetError(absl::UnknownError("late")),
              IsAlreadyComplete());
  EXPECT_FALSE(promise.TrySetValue(late));
  EXPECT_FALSE(promise.TrySetError(absl::UnknownError("late")));
  EXPECT_EQ(late.use_count(), 1);
  EXPECT_THAT(future.value(), IsOkAndHolds(Pointee(1)));
  EXPECT_EQ(calls, 1);
}

TEST(FutureTest, TrySetTellsWhetherItWas) {
  Promise<int> promise;
  Future<int> future = promise.future();
  EXPECT_TRUE(promise.TrySetValue(3));
  EXPECT_FALSE(promise.TrySetValue(4));
  EXPECT_THAT(future.value(), IsOkAndHolds(3));
}

TEST(FutureTest, AnOkErrorIsStillAnError) {
  Promise<int> promise;
  Promise<void> void_promise;
  EXPECT_THAT(promise.SetError(absl::OkStatus()), IsOk());
  EXPECT_TRUE(void_promise.TrySetError(absl::OkStatus()));
  EXPECT_THAT(promise.future().value(), StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(void_promise.future().value(),
              StatusIs(absl::StatusCode::kInternal));
}

TEST(FutureTest, DroppedPromiseIsAborted) {
  std::optional<Promise<int>> promise(std::in_place);
  Future<int> future = promise->future();
  Future<int> child = future.Then(PlusOne);
  promise.reset();
  EXPECT_THAT(future.value(), IsDropped());
  EXPECT_THAT(child.value(), IsDropped());
}

TEST(FutureTest, AssignedPromiseIsDroppedAndTheOtherMoves) {
  Promise<int> promise;
  Future<int> old_future = promise.future();
  Promise<int> other;
  Future<int> new_future = other.future();
  promise = std::move(other);
  EXPECT_THAT(old_future.value(), IsDropped());
  EXPECT_FALSE(new_future.done());

  Promise<int>& same = promise;
  promise = std::move(same);
  EXPECT_FALSE(new_future.done());
  EXPECT_THAT(promise.SetValue(5), IsOk());
  EXPECT_THAT(new_future.value(), IsOkAndHolds(5));
}

TEST(FutureTest, MovedFromPromiseCannotComplete) {
  Promise<int> from;
  Future<int> future = from.future();
  Promise<int> to = std::move(from);
  // NOLINTBEGIN(bugprone-use-after-move): under test.
  EXPECT_THAT(from.SetValue(1), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("moved from")));
  EXPECT_FALSE(from.TrySetError(absl::UnknownError("")));
  EXPECT_THAT(from.future().value(), IsEmptyFuture());
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_FALSE(future.done());
  EXPECT_TRUE(to.TrySetValue(2));
  EXPECT_THAT(future.value(), IsOkAndHolds(2));
}

TEST(FutureTest, PromiseGivesItsFutureOnce) {
  Promise<int> promise;
  Future<int> first = promise.future();
  Promise<int> moved = std::move(promise);
  EXPECT_THAT(moved.future().value(), IsEmptyFuture());
  EXPECT_FALSE(first.done());
}

TEST(FutureTest, EmptyFutureHasFailed) {
  Future<int> future;
  EXPECT_TRUE(future.done());
  EXPECT_THAT(future.Wait(), IsOk());
  EXPECT_THAT(future.value(), IsEmptyFuture());
  EXPECT_THAT(std::move(future).value(), IsEmptyFuture());
  EXPECT_THAT(future.Then(PlusOne).value(), IsEmptyFuture());
  EXPECT_THAT(std::move(future).Then(PlusOne).value(), IsEmptyFuture());
  int calls = 0;
  future.AddDoneCallback([&](const absl::StatusOr<int>& value) {
    EXPECT_THAT(value, IsEmptyFuture());
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

TEST(FutureTest, RvalueMembersLeaveTheFutureEmpty) {
  Future<int> taken = Ready(1);
  EXPECT_THAT(std::move(taken).value(), IsOkAndHolds(1));
  EXPECT_THAT(taken.value(), IsEmptyFuture());  // NOLINT: under test.
  Future<int> chained = Ready(1);
  EXPECT_THAT(std::move(chained).Then(PlusOne).value(), IsOkAndHolds(2));
  EXPECT_THAT(chained.value(), IsEmptyFuture());  // NOLINT: under test.
}

TEST(FutureTest, MoveOnlyValuesTravel) {
  using Owner = std::unique_ptr<int>;
  Promise<Owner> promise;
  Future<Owner> future = promise.future();
  int seen = 0;
  future.AddDoneCallback(
      [&](const absl::StatusOr<Owner>& value) { seen = **value; });
  Future<Owner> last =
      std::move(future)
          .Then([](absl::StatusOr<Owner> value) { return value; })
          .Then([](absl::StatusOr<Owner> value) {
            return Ready(*std::move(value));
          })
          .Then(
              [](absl::StatusOr<Owner>&& value) { return *std::move(value); });
  auto sent = std::make_unique<int>(9);
  const int* const address = sent.get();
  ASSERT_THAT(promise.SetValue(std::move(sent)), IsOk());
  EXPECT_EQ(seen, 9);
  ASSERT_THAT(last.value(), IsOkAndHolds(Pointee(9)));
  const absl::StatusOr<Owner> got = std::move(last).value();
  EXPECT_EQ(got->get(), address);
}

}  // namespace
}  // namespace tenon::futures
