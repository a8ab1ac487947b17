// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Arguments, results and order of callbacks: Then and AddDoneCallback, on one
// thread.

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/async.h"
#include "tenon/futures/callback_failure.h"
#include "tenon/futures/future.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNull;

auto IsEmptyFuture() {
  return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("empty"));
}
auto IsDropped() {
  return StatusIs(absl::StatusCode::kAborted, HasSubstr("dropped"));
}

// Adds one to a value and passes an error on.
absl::StatusOr<int> PlusOne(const absl::StatusOr<int>& value) {
  if (!value.ok()) return value.status();
  return *value + 1;
}

TEST(FutureCallbackTest, ThenMakesAFutureOfWhatTheCallbackReturns) {
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

TEST(FutureCallbackTest, ThenSeesErrorsAndMayMendThem) {
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

TEST(FutureCallbackTest, ThenOnAVoidFutureTakesAStatus) {
  Promise<void> promise;
  Future<int> length = promise.future().Then([](absl::Status status) {
    return static_cast<int>(status.message().size());
  });
  ASSERT_THAT(promise.SetError(absl::AbortedError("four")), IsOk());
  EXPECT_THAT(length.value(), IsOkAndHolds(4));
}

TEST(FutureCallbackTest, ThenOnADoneFutureRunsAtOnce) {
  const Future<int> future = ReadyFuture(1);
  EXPECT_THAT(future.Then(PlusOne).value(), IsOkAndHolds(2));
  EXPECT_THAT(ReadyFuture(1).Then(PlusOne).value(), IsOkAndHolds(2));
  int seen = 0;
  future.AddDoneCallback([&](const absl::StatusOr<int>& v) { seen = *v; });
  EXPECT_EQ(seen, 1);
}

TEST(FutureCallbackTest, ChainedThenOnLvaluesKeepsEveryValue) {
  Promise<int> promise;
  std::vector<Future<int>> chain;
  chain.push_back(promise.future());
  for (int i = 0; i < 20; ++i) chain.push_back(chain.back().Then(PlusOne));
  ASSERT_THAT(promise.SetValue(3), IsOk());
  for (int i = 0; i <= 20; ++i) {
    EXPECT_THAT(chain[i].value(), IsOkAndHolds(3 + i));
  }
}

TEST(FutureCallbackTest, CallbacksRunInTheOrderOfTheirAttachment) {
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

TEST(FutureCallbackTest, FlattensAFutureThatIsThereAndOneThatIsNot) {
  Promise<int> outer, inner;
  Future<int> outer_future = outer.future();
  Future<int> now =
      outer_future.Then([](const auto& v) { return ReadyFuture(*v + 1); });
  Future<int> later =
      outer_future.Then([&](const auto&) { return inner.future(); });
  ASSERT_THAT(outer.SetValue(1), IsOk());
  EXPECT_THAT(now.value(), IsOkAndHolds(2));
  EXPECT_FALSE(later.done());
  ASSERT_THAT(inner.SetValue(5), IsOk());
  EXPECT_THAT(later.value(), IsOkAndHolds(5));
}

TEST(FutureCallbackTest, FlattenedFutureCarriesErrors) {
  Promise<void> failed;
  Future<void> from_failed =
      ReadyFuture(0).Then([&](auto) { return failed.future(); });
  ASSERT_THAT(failed.SetError(absl::InternalError("inner")), IsOk());
  EXPECT_THAT(from_failed.value(),
              StatusIs(absl::StatusCode::kInternal, "inner"));

  Future<int> from_dropped =
      ReadyFuture(0).Then([](auto) { return Promise<int>().future(); });
  EXPECT_THAT(from_dropped.value(), IsDropped());

  Future<int> from_empty =
      ReadyFuture(0).Then([](auto) { return Future<int>(); });
  EXPECT_THAT(from_empty.value(), IsEmptyFuture());
}

TEST(FutureCallbackTest, ACallbackThatReturnsItsOwnFutureFails) {
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

TEST(FutureCallbackTest, AnExceptionFailsTheFutureOfItsCallback) {
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

// For callbacks that fail on purpose.
class QuietFailures {
 public:
  QuietFailures() {
    SetCallbackFailureHandler(+[](const absl::Status&) noexcept {});
  }
  ~QuietFailures() { SetCallbackFailureHandler(nullptr); }
};

TEST(FutureCallbackTest, AnExceptionOfADoneCallbackFailsWhatItHeld) {
  const QuietFailures quiet;
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

TEST(FutureCallbackTest, ErrorsOfDoneCallbacksAndOfThenKeepApart) {
  const QuietFailures quiet;
  const uint64_t failures = CallbackFailureCount();
  Promise<int> promise;
  Future<int> future = promise.future();
  std::vector<std::string> calls;
  future.AddDoneCallback([&](const auto&) {
    calls.push_back("first");
    throw std::runtime_error("of nobody's future");
  });
  Future<int> child = future.Then([&](const auto&) -> int {
    calls.push_back("second");
    throw std::runtime_error("of the child");
  });
  future.AddDoneCallback([&](const auto&) {
    calls.push_back("third");
    return absl::DataLossError("torn");
  });
  Future<int> last = future.Then(PlusOne);
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_THAT(calls, ElementsAre("first", "second", "third"));
  EXPECT_EQ(CallbackFailureCount(), failures + 2);
  EXPECT_THAT(future.value(), IsOkAndHolds(1));
  EXPECT_THAT(child.value(),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("of the child")));
  EXPECT_THAT(last.value(), IsOkAndHolds(2));
}

TEST(FutureCallbackTest, ACallbackIsGoneBeforeItsFutureIsDone) {
  Promise<int> promise;
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = held;
  Future<int> child = promise.future().Then(
      [held](const absl::StatusOr<int>& v) { return *v; });
  held.reset();
  EXPECT_FALSE(watch.expired());
  bool gone = false;
  child.AddDoneCallback([&](const auto&) { gone = watch.expired(); });
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_TRUE(gone);
}

TEST(FutureCallbackTest, ACallbackMayDestroyThePromiseThatRunsIt) {
  auto promise = std::make_unique<Promise<int>>();
  Future<int> future = promise->future();
  future.AddDoneCallback([&](const auto&) { promise.reset(); });
  EXPECT_THAT(promise->SetValue(1), IsOk());
  EXPECT_THAT(promise, IsNull());
  EXPECT_THAT(future.value(), IsOkAndHolds(1));
}

TEST(FutureCallbackTest, CallbacksRunAlsoWhenTheFutureIsDropped) {
  Promise<int> promise;
  int seen = 0;
  promise.future().AddDoneCallback(
      [&](const absl::StatusOr<int>& v) { seen = *v; });
  ASSERT_THAT(promise.SetValue(6), IsOk());
  EXPECT_EQ(seen, 6);
}

TEST(FutureCallbackTest, InsideACallbackItsOwnFutureIsDoneAndNotFinished) {
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
    late = std::move(future).Then([&](const absl::StatusOr<int>& v) {
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

TEST(FutureCallbackTest, WaitInsideACallbackRunsWhatItsThreadOwes) {
  Promise<int> outer, inner;
  Future<int> outer_future = outer.future();
  Future<int> child = inner.future().Then(PlusOne);
  int seen = 0;
  outer_future.AddDoneCallback([&](const auto&) {
    EXPECT_THAT(inner.SetValue(1), IsOk());
    EXPECT_FALSE(child.done());  // Deferred: the stack does not deepen.
    EXPECT_THAT(child.Wait(absl::Minutes(1)), IsOk());
    seen = child.value().value_or(-1);
  });
  ASSERT_THAT(outer.SetValue(0), IsOk());
  EXPECT_EQ(seen, 2);
}

TEST(FutureCallbackTest, ACallbackMayDestroyItsFuture) {
  const std::string text(100, 'x');
  Promise<std::string> promise;
  for (const bool done_before : {false, true}) {
    promise = Promise<std::string>();
    auto first = std::make_unique<Future<std::string>>(promise.future());
    if (done_before) promise.SetValue(text).IgnoreError();
    std::string seen;
    first->AddDoneCallback([&](const absl::StatusOr<std::string>& result) {
      promise = Promise<std::string>();
      first.reset();
      seen = *result;
    });
    if (!done_before) promise.SetValue(text).IgnoreError();
    EXPECT_EQ(seen, text) << done_before;
  }
  auto other = std::make_unique<Future<std::string>>(ReadyFuture(text));
  const Future<std::string> child =
      other->Then([&](const absl::StatusOr<std::string>& result) {
        other.reset();
        return *result;
      });
  EXPECT_THAT(child.value(), IsOkAndHolds(text));
}

}  // namespace
}  // namespace tenon::futures
