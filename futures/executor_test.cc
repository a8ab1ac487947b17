// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/executor.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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
using ::testing::Pointee;

// An existing facility of a program: a list of tasks.
class TaskList final : public Executor {
 public:
  void Execute(Task task) override { tasks_.push_back(std::move(task)); }
  void RunAll() {
    while (!tasks_.empty()) {
      std::vector<Task> tasks = std::move(tasks_);
      tasks_.clear();
      for (Task& task : tasks) std::move(task).Run();
    }
  }
  void DropAll() { tasks_.clear(); }
  size_t size() const { return tasks_.size(); }

 private:
  std::vector<Task> tasks_;
};

class ThrowingExecutor final : public Executor {
  void Execute(Task /*task*/) override {
    throw std::runtime_error("queue full");
  }
};

auto IsDroppedTask() {
  return StatusIs(absl::StatusCode::kAborted, HasSubstr("without running it"));
}

TEST(ExecutorTest, ATaskRunsOnce) {
  int calls = 0;
  Task task([&calls, only = std::make_unique<int>(2)] { calls += *only; });
  Task moved = std::move(task);
  std::move(task).Run();  // NOLINT(bugprone-use-after-move): empty.
  EXPECT_EQ(calls, 0);
  std::move(moved).Run();
  std::move(moved).Run();  // NOLINT(bugprone-use-after-move): empty.
  EXPECT_EQ(calls, 2);
}

TEST(ExecutorTest, ATaskLetsGoOfWhatItHeldWhenItHasRun) {
  auto held = std::make_shared<int>(0);
  Task task([held] {});
  EXPECT_EQ(held.use_count(), 2);
  std::move(task).Run();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ExecutorTest, AnExceptionOfATaskIsCounted) {
  SetCallbackFailureHandler(+[](const absl::Status&) noexcept {});
  const uint64_t count = CallbackFailureCount();
  InlineExecutor().Execute(Task([] { throw std::runtime_error("in a task"); }));
  EXPECT_EQ(CallbackFailureCount(), count + 1);
  SetCallbackFailureHandler(nullptr);
}

TEST(ExecutorTest, InlineRunsAtOnce) {
  int calls = 0;
  InlineExecutor().Execute(Task([&] { ++calls; }));
  EXPECT_EQ(calls, 1);
  Promise<int> promise;
  Future<int> next = promise.future().Then(
      InlineExecutor(),
      [](const absl::StatusOr<int>& value) { return *value + 1; });
  ASSERT_THAT(promise.SetValue(1), IsOk());
  EXPECT_THAT(next.value(), IsOkAndHolds(2));
}

TEST(ExecutorTest, ACallbackRunsWhereItWasToldTo) {
  TaskList list;
  Promise<std::unique_ptr<int>> promise;
  Future<int> next = promise.future().Then(
      list, [](absl::StatusOr<std::unique_ptr<int>> v) { return **v + 1; });
  EXPECT_EQ(list.size(), 0U);
  ASSERT_THAT(promise.SetValue(std::make_unique<int>(4)), IsOk());
  EXPECT_EQ(list.size(), 1U);
  EXPECT_FALSE(next.done());
  list.RunAll();
  EXPECT_THAT(next.value(), IsOkAndHolds(5));
}

TEST(ExecutorTest, OnADoneFutureItIsHandedOverAtOnce) {
  TaskList list;
  Future<void> next = ReadyFuture(1).Then(list, [](absl::StatusOr<int>) {});
  EXPECT_EQ(list.size(), 1U);
  EXPECT_FALSE(next.done());
  list.RunAll();
  EXPECT_THAT(next.value(), IsOk());
}

TEST(ExecutorTest, AnEmptyFutureIsAnErrorThereToo) {
  TaskList list;
  Future<int> empty;
  Future<int> next =
      empty.Then(list, [](const absl::StatusOr<int>& value) { return value; });
  Future<int> last = std::move(empty).Then(
      list, [](const absl::StatusOr<int>& value) { return value; });
  list.RunAll();
  EXPECT_THAT(next.value(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(last.value(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(ExecutorTest, OnAnLvalueEachCallbackHasItsOwnCopy) {
  TaskList list;
  Promise<std::string> promise;
  Future<std::string> future = promise.future();
  const auto add = [](const char* what) {
    return [what](absl::StatusOr<std::string> text) { return *text + what; };
  };
  Future<std::string> first = future.Then(list, add("1"));
  Future<std::string> second = future.Then(list, add("2"));
  std::optional<std::string> seen;
  future.AddDoneCallback(
      list, [&](const absl::StatusOr<std::string>& text) { seen = *text; });
  ASSERT_THAT(promise.SetValue("a"), IsOk());
  // Wait() does not wait for tasks in the list.
  EXPECT_THAT(future.Wait(absl::ZeroDuration()), IsOk());
  EXPECT_THAT(std::move(future).value(), IsOkAndHolds("a"));
  list.RunAll();
  EXPECT_THAT(first.value(), IsOkAndHolds("a1"));
  EXPECT_THAT(second.value(), IsOkAndHolds("a2"));
  EXPECT_EQ(seen, "a");
}

TEST(ExecutorTest, CallbacksAreHandedOverInTheOrderOfTheirAttachment) {
  TaskList list;
  Promise<int> promise;
  const Future<int> future = promise.future();
  std::vector<int> calls;
  for (int i = 0; i < 3; ++i) {
    future.AddDoneCallback(list,
                           [&calls, i](const auto&) { calls.push_back(i); });
  }
  ASSERT_THAT(promise.SetValue(1), IsOk());
  list.RunAll();
  EXPECT_THAT(calls, ElementsAre(0, 1, 2));
}

TEST(ExecutorTest, AReturnedFutureIsFlattened) {
  TaskList list;
  Promise<int> outer, inner;
  Future<int> next = outer.future().Then(
      list, [&](absl::StatusOr<int>) { return inner.future(); });
  ASSERT_THAT(outer.SetValue(1), IsOk());
  list.RunAll();
  EXPECT_FALSE(next.done());
  ASSERT_THAT(inner.SetValue(2), IsOk());
  EXPECT_THAT(next.value(), IsOkAndHolds(2));
}

TEST(ExecutorTest, ErrorsAndExceptionsArrive) {
  TaskList list;
  Promise<int> promise;
  const Future<int> future = promise.future();
  Future<int> passed_on =
      future.Then(list, [](const absl::StatusOr<int>& value) { return value; });
  Future<int> thrown = future.Then(list, [](absl::StatusOr<int>) -> int {
    throw std::runtime_error("on the list");
  });
  ASSERT_THAT(promise.SetError(absl::NotFoundError("no such file")), IsOk());
  list.RunAll();
  EXPECT_THAT(passed_on.value(),
              StatusIs(absl::StatusCode::kNotFound, "no such file"));
  EXPECT_THAT(thrown.value(),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("on the list")));
}

TEST(ExecutorTest, ADroppedTaskIsAnErrorAndLetsGo) {
  static int failures;
  failures = 0;
  SetCallbackFailureHandler(+[](const absl::Status& error) noexcept {
    EXPECT_THAT(error, IsDroppedTask());
    ++failures;
  });
  auto held = std::make_shared<int>(0);
  TaskList list;
  Promise<int> promise;
  const Future<int> future = promise.future();
  Future<void> next = future.Then(list, [held](absl::StatusOr<int>) {});
  next.AddDoneCallback(
      [&](const auto&) { EXPECT_EQ(held.use_count(), 2); });  // The other's.
  future.AddDoneCallback(list, [held](const auto&) {});
  ASSERT_THAT(promise.SetValue(1), IsOk());
  list.DropAll();
  EXPECT_THAT(next.value(), IsDroppedTask());
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(held.use_count(), 1);
  SetCallbackFailureHandler(nullptr);
}

TEST(ExecutorTest, AnExecutorThatThrowsHasDroppedTheTask) {
  ThrowingExecutor thrower;
  Future<int> next = ReadyFuture(1).Then(
      thrower, [](const absl::StatusOr<int>& v) { return v; });
  EXPECT_THAT(next.value(), IsDroppedTask());
}

struct CannotBeCopied {
  CannotBeCopied() = default;
  CannotBeCopied(const CannotBeCopied&) { throw std::runtime_error("no room"); }
  CannotBeCopied(CannotBeCopied&&) noexcept {}
  CannotBeCopied& operator=(const CannotBeCopied&) = default;
};

TEST(ExecutorTest, ACopyThatFailsIsAnError) {
  Promise<CannotBeCopied> promise;
  const Future<CannotBeCopied> future = promise.future();
  Future<void> next =
      future.Then(InlineExecutor(), [](absl::StatusOr<CannotBeCopied>) {});
  ASSERT_THAT(promise.SetValue({}), IsOk());
  EXPECT_THAT(next.value(),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("no room")));
}

TEST(ExecutorTest, AsyncIsTheFutureOfAFunction) {
  TaskList list;
  Future<std::unique_ptr<int>> value =
      Async(list, [owned = std::make_unique<int>(3)]() mutable {
        return std::move(owned);
      });
  Future<void> failed = Async(list, [] { return absl::DataLossError("torn"); });
  Future<int> flattened = Async(list, [] { return ReadyFuture(7); });
  Future<void> dropped = Async(list, [] {});
  EXPECT_EQ(list.size(), 4U);
  EXPECT_FALSE(value.done());
  list.RunAll();
  EXPECT_THAT(value.value(), IsOkAndHolds(Pointee(3)));
  EXPECT_THAT(failed.value(), StatusIs(absl::StatusCode::kDataLoss, "torn"));
  EXPECT_THAT(flattened.value(), IsOkAndHolds(7));
  EXPECT_THAT(dropped.value(), IsOk());
}

}  // namespace
}  // namespace tenon::futures
