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
#include "tenon/shm/status_matchers.h"

namespace tenon::futures {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::Pointee;

static_assert(!std::is_copy_constructible_v<Future<int>>);
static_assert(!std::is_copy_assignable_v<Future<int>>);
static_assert(std::is_nothrow_move_constructible_v<Future<int>>);
static_assert(std::is_nothrow_move_assignable_v<Future<int>>);
static_assert(!std::is_copy_constructible_v<Promise<int>>);
static_assert(std::is_nothrow_move_constructible_v<Promise<int>>);
static_assert(std::is_nothrow_move_assignable_v<Promise<int>>);
static_assert(std::is_same_v<Result<int>, absl::StatusOr<int>>);
static_assert(std::is_same_v<Result<void>, absl::Status>);

// The type of future that Then makes of a callback that returns R.
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
  // NOLINTBEGIN(bugprone-use-after-move): what is tested.
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
  EXPECT_THAT(taken.value(), IsEmptyFuture());  // NOLINT: what is tested.
  Future<int> chained = Ready(1);
  EXPECT_THAT(std::move(chained).Then(PlusOne).value(), IsOkAndHolds(2));
  EXPECT_THAT(chained.value(), IsEmptyFuture());  // NOLINT: what is tested.
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

TEST(FutureTest, ThenMakesAFutureOfWhatTheCallbackReturns) {
  Promise<int> promise;
  const Future<int> future = promise.future();
  Future<void> nothing = future.Then([](const absl::StatusOr<int>&) {});
  Future<int> value =
      future.Then([](const absl::StatusOr<int>& v) { return *v * 2; });
  Future<int> or_error = future.Then(PlusOne);
  Future<int> error = future.Then([](const auto&) -> absl::StatusOr<int> {
    return absl::OutOfRangeError("end");
  });
  Future<void> status =
      future.Then([](const auto&) { return absl::CancelledError("stop"); });
  EXPECT_FALSE(nothing.done() || value.done() || error.done());

  ASSERT_THAT(promise.SetValue(10), IsOk());
  EXPECT_THAT(nothing.value(), IsOk());
  EXPECT_THAT(value.value(), IsOkAndHolds(20));
  EXPECT_THAT(or_error.value(), IsOkAndHolds(11));
  EXPECT_THAT(error.value(), StatusIs(absl::StatusCode::kOutOfRange, "end"));
  EXPECT_THAT(status.value(), StatusIs(absl::StatusCode::kCancelled, "stop"));
}

TEST(FutureTest, ThenSeesErrorsAndMayMendThem) {
  Promise<int> promise;
  Future<int> future = promise.future();
  Future<int> passed_on = future.Then(PlusOne);
  Future<int> mended =
      future.Then([](const absl::StatusOr<int>& v) { return v.value_or(-1); });
  ASSERT_THAT(promise.SetError(absl::UnavailableError("gone")), IsOk());
  EXPECT_THAT(passed_on.value(),
              StatusIs(absl::StatusCode::kUnavailable, "gone"));
  EXPECT_THAT(mended.value(), IsOkAndHolds(-1));
}

TEST(FutureTest, ThenOnAVoidFutureTakesAStatus) {
  Promise<void> promise;
  Future<int> length = promise.future().Then([](absl::Status status) {
    return static_cast<int>(status.message().size());
  });
  ASSERT_THAT(promise.SetError(absl::AbortedError("four")), IsOk());
  EXPECT_THAT(length.value(), IsOkAndHolds(4));
}

TEST(FutureTest, ThenOnADoneFutureRunsAtOnce) {
  const Future<int> future = Ready(1);
  EXPECT_THAT(future.Then(PlusOne).value(), IsOkAndHolds(2));
  EXPECT_THAT(Ready(1).Then(PlusOne).value(), IsOkAndHolds(2));
  int seen = 0;
  future.AddDoneCallback([&](const absl::StatusOr<int>& v) { seen = *v; });
  EXPECT_EQ(seen, 1);
}

TEST(FutureTest, ChainedThenOnLvaluesKeepsEveryValue) {
  Promise<int> promise;
  std::vector<Future<int>> chain;
  chain.push_back(promise.future());
  for (int i = 0; i < 20; ++i) chain.push_back(chain.back().Then(PlusOne));
  ASSERT_THAT(promise.SetValue(3), IsOk());
  for (int i = 0; i <= 20; ++i) {
    EXPECT_THAT(chain[i].value(), IsOkAndHolds(3 + i));
  }
}

TEST(FutureTest, CallbacksRunInTheOrderOfTheirAttachment) {
  Promise<int> promise;
  Future<int> future = promise.future();
  std::vector<std::string> calls;
  future.AddDoneCallback([&](const auto&) { calls.push_back("first"); });
  Future<int> second = future.Then([&](const absl::StatusOr<int>& v) {
    calls.push_back("second");
    return *v + 1;
  });
  second.AddDoneCallback([&](const auto&) { calls.push_back("of second"); });
  future.AddDoneCallback([&](const auto&) { calls.push_back("third"); });
  Future<void> last =
      std::move(future).Then([&](auto) { calls.push_back("last"); });
  EXPECT_THAT(calls, ElementsAre());
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_THAT(calls,
              ElementsAre("first", "second", "third", "last", "of second"));
}

TEST(FutureTest, FlattensAFutureThatIsThereAndOneThatIsNot) {
  Promise<int> outer, inner;
  Future<int> outer_future = outer.future();
  Future<int> now =
      outer_future.Then([](const auto& v) { return Ready(*v + 1); });
  Future<int> later =
      outer_future.Then([&](const auto&) { return inner.future(); });
  ASSERT_THAT(outer.SetValue(1), IsOk());
  EXPECT_THAT(now.value(), IsOkAndHolds(2));
  EXPECT_FALSE(later.done());
  ASSERT_THAT(inner.SetValue(5), IsOk());
  EXPECT_THAT(later.value(), IsOkAndHolds(5));
}

TEST(FutureTest, FlattenedFutureCarriesErrors) {
  Promise<void> failed;
  Future<void> from_failed =
      Ready(0).Then([&](auto) { return failed.future(); });
  ASSERT_THAT(failed.SetError(absl::InternalError("inner")), IsOk());
  EXPECT_THAT(from_failed.value(),
              StatusIs(absl::StatusCode::kInternal, "inner"));

  Future<int> from_dropped =
      Ready(0).Then([](auto) { return Promise<int>().future(); });
  EXPECT_THAT(from_dropped.value(), IsDropped());

  Future<int> from_empty = Ready(0).Then([](auto) { return Future<int>(); });
  EXPECT_THAT(from_empty.value(), IsEmptyFuture());
}

TEST(FutureTest, ACallbackThatReturnsItsOwnFutureFails) {
  Promise<int> promise;
  Future<int> own;
  Promise<void> end;
  Future<void> seen = end.future();
  Future<int> ahead = promise.future();
  own = ahead.Then([&](const auto&) { return std::move(own); });
  own.AddDoneCallback([&](const absl::StatusOr<int>& value) {
    end.SetError(value.status()).IgnoreError();
  });
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_THAT(seen.value(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("waits for it")));
}

TEST(FutureTest, AnExceptionFailsTheFutureOfItsCallback) {
  Promise<int> promise;
  Future<int> future = promise.future();
  Future<int> thrown = future.Then(
      [](const auto&) -> int { throw std::runtime_error("no such tensor"); });
  Future<void> odd = future.Then([](const auto&) { throw 3; });
  Future<int> inner = future.Then(
      [](const auto&) -> Future<int> { throw std::logic_error("early"); });
  Future<int> good = future.Then(PlusOne);
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_THAT(thrown.value(), StatusIs(absl::StatusCode::kUnknown,
                                       HasSubstr("no such tensor")));
  EXPECT_THAT(odd.value(), StatusIs(absl::StatusCode::kUnknown));
  EXPECT_THAT(inner.value(),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("early")));
  EXPECT_THAT(good.value(), IsOkAndHolds(2));
  EXPECT_THAT(future.value(), IsOkAndHolds(1));

  Future<int> at_once = future.Then(
      [](const auto&) -> int { throw std::runtime_error("at once"); });
  EXPECT_THAT(at_once.value(),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("at once")));
}

TEST(FutureTest, AnExceptionOfADoneCallbackFailsWhatItHeld) {
  Promise<int> promise, held;
  Future<int> future = promise.future();
  Future<int> held_future = held.future();
  int calls = 0;
  future.AddDoneCallback([held = std::move(held)](const auto&) {
    throw std::runtime_error("before the promise was kept");
  });
  future.AddDoneCallback([&](const auto&) { ++calls; });
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_THAT(future.value(), IsOkAndHolds(1));
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(held_future.value(), IsDropped());
}

TEST(FutureTest, ACallbackIsGoneBeforeItsFutureIsDone) {
  Promise<int> promise;
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = held;
  Future<int> child =
      promise.future().Then([held](absl::StatusOr<int> v) { return *v; });
  held.reset();
  EXPECT_FALSE(watch.expired());
  bool gone = false;
  child.AddDoneCallback([&](const auto&) { gone = watch.expired(); });
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_TRUE(gone);
}

TEST(FutureTest, ACallbackMayDestroyThePromiseThatRunsIt) {
  auto promise = std::make_unique<Promise<int>>();
  Future<int> future = promise->future();
  future.AddDoneCallback([&](const auto&) { promise.reset(); });
  EXPECT_THAT(promise->SetValue(1), IsOk());
  EXPECT_THAT(promise, IsNull());
  EXPECT_THAT(future.value(), IsOkAndHolds(1));
}

TEST(FutureTest, CallbacksRunAlsoWhenTheFutureIsDropped) {
  Promise<int> promise;
  int seen = 0;
  promise.future().AddDoneCallback(
      [&](const absl::StatusOr<int>& v) { seen = *v; });
  ASSERT_THAT(promise.SetValue(6), IsOk());
  EXPECT_EQ(seen, 6);
}

TEST(FutureTest, InsideACallbackItsOwnFutureIsDoneAndNotFinished) {
  Promise<int> promise;
  Future<int> future = promise.future();
  Future<int> late;
  std::vector<std::string> calls;
  future.AddDoneCallback([&](const auto&) {
    EXPECT_TRUE(future.done());
    EXPECT_THAT(future.Wait(), IsOk());
    EXPECT_THAT(future.value(), IsOkAndHolds(1));
    EXPECT_THAT(std::move(future).value(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("cannot be moved out")));
    future.AddDoneCallback([&](const auto&) { calls.push_back("at once"); });
    late = std::move(future).Then([&](absl::StatusOr<int> v) {
      calls.push_back("late");
      return *v + 1;
    });
    EXPECT_FALSE(late.done());
    calls.push_back("first");
  });
  future.AddDoneCallback([&](const auto&) { calls.push_back("second"); });
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_THAT(calls, ElementsAre("at once", "first", "second", "late"));
  EXPECT_THAT(late.value(), IsOkAndHolds(2));
}

TEST(FutureTest, WaitInsideACallbackRunsWhatItsThreadOwes) {
  Promise<int> outer, inner;
  Future<int> outer_future = outer.future();
  Future<int> child = inner.future().Then(PlusOne);
  int seen = 0;
  outer_future.AddDoneCallback([&](const auto&) {
    EXPECT_THAT(inner.SetValue(1), IsOk());
    EXPECT_FALSE(child.done());  // Put off: the stack does not deepen.
    EXPECT_THAT(child.Wait(absl::Minutes(1)), IsOk());
    seen = child.value().value_or(-1);
  });
  ASSERT_THAT(outer.SetValue(0), IsOk());
  EXPECT_EQ(seen, 2);
}

}  // namespace
}  // namespace tenon::futures
