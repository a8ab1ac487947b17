// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Results of a pool, and their order.

#include "tenon/spawn/pool/process_pool.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/futures/future_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using futures::Future;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ProcessPoolTest : public ChildTest {};

int64_t Square(int64_t x) { return x * x; }
TENON_POOL_FUNCTION(Square);

// What does not compile as a TENON_POOL_FUNCTION.
struct NoFunction {
  int64_t Member(int64_t x) { return x; }
};
static_assert(CanBePooled<Square>);
static_assert(!CanBePooled<&NoFunction::Member>);
static_assert(!CanBePooled<7>);

std::string Join(std::string a, int b, const std::vector<double>& c) {
  return absl::StrCat(a, "/", b, "/", c.size());
}
TENON_POOL_FUNCTION(Join);

std::vector<int64_t> Numbers(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST_F(ProcessPoolTest, ResultsAreThoseOfACall) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 3}));
  EXPECT_EQ(pool.counts().workers, 3u);
  EXPECT_THAT(Get(pool.Submit(Square, 7)), IsOkAndHolds(49));
  EXPECT_THAT(Get(pool.Submit(Join, "a", 2.0, std::vector<double>{1, 2, 3})),
              IsOkAndHolds("a/2/3"));
  EXPECT_THAT(Get(pool.SubmitByName<int64_t>("Square", int64_t{5})),
              IsOkAndHolds(25));
  EXPECT_THAT(pool.Shutdown(), IsOk());
}

TEST_F(ProcessPoolTest, ManyResultsFromFewWorkers) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  std::vector<Future<int64_t>> futures;
  for (int64_t i = 0; i < 1000; ++i) futures.push_back(pool.Submit(Square, i));
  for (int64_t i = 0; i < 1000; ++i) {
    ASSERT_THAT(Get(std::move(futures[static_cast<size_t>(i)])),
                IsOkAndHolds(i * i));
  }
}

TEST_F(ProcessPoolTest, MapIsInTheOrderOfItsInputs) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 3}));
  std::vector<int64_t> squares;
  for (int64_t i = 0; i < 103; ++i) squares.push_back(i * i);
  for (const size_t chunk : {0, 1, 20, 1000}) {
    EXPECT_THAT(Get(pool.Map(Square, Numbers(103), {.chunk_size = chunk})),
                IsOkAndHolds(squares))
        << chunk;
  }
  EXPECT_THAT(Get(pool.Map(Square, {}, {.chunk_size = 1})),
              IsOkAndHolds(std::vector<int64_t>()));
}

TEST_F(ProcessPoolTest, UnknownFunctionsAndWrongTypes) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  EXPECT_THAT(Get(pool.SubmitByName<int>("Cube", 1)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("Square")));
  EXPECT_THAT(
      Get(pool.SubmitByName<int64_t>("Square", 1)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("(long) -> long"), HasSubstr("(int) -> long"))));
  EXPECT_THAT(
      Get(pool.Submit(
          +[](int x) { return x; }, 1)),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("TENON_POOL_FUNCTION")));
}

TEST_F(ProcessPoolTest, BadOptions) {
  for (const int bad : {-1, -100}) {
    EXPECT_THAT(ProcessPool::Create({.workers = bad}),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(
        ProcessPool::Create({.workers = 1, .max_tasks_per_worker = bad}),
        StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_THAT(ProcessPool::Create({.workers = 1, .min_workers = 2}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ProcessPool::Create(
                  {.workers = 1, .process = {.method = StartMethod::kFork}}),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

// ---- Errors of functions ----

absl::StatusOr<int> Fail(std::string how) {
  if (how == "throw") throw std::out_of_range("thrown in a worker");
  if (how == "error") return absl::NotFoundError("no such image");
  return 1;
}
TENON_POOL_FUNCTION(Fail);

TEST_F(ProcessPoolTest, ErrorsAndExceptionsArrive) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  const absl::Status error = Get(pool.Submit(Fail, "error")).status();
  EXPECT_THAT(error, StatusIs(absl::StatusCode::kNotFound,
                              "pool function 'Fail': no such image"));
  EXPECT_EQ(GetProcessRaised(error)->pid, pool.worker_pids()[0]);
  EXPECT_EQ(GetProcessRaised(error)->status,
            absl::NotFoundError("no such image"));
  EXPECT_THAT(Get(pool.Submit(Fail, "throw")),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("std::out_of_range: thrown in a worker")));
  EXPECT_THAT(Get(pool.Submit(Fail, "")), IsOkAndHolds(1));
  EXPECT_EQ(pool.counts().started, 1u) << "it is the same worker";
}

TEST_F(ProcessPoolTest, ErrorReachesCallbacks) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  Future<std::string> text =
      pool.Submit(Fail, "error").Then([](absl::StatusOr<int> result) {
        return std::string(result.status().message());
      });
  EXPECT_THAT(Get(std::move(text)),
              IsOkAndHolds("pool function 'Fail': no such image"));
}

absl::Status SleepAndFail(int milliseconds) {
  absl::SleepFor(absl::Milliseconds(milliseconds));
  return absl::InternalError(std::string(1 << 20, 'e'));
}
TENON_POOL_FUNCTION(SleepAndFail);

TEST_F(ProcessPoolTest, MapEndsWhenAllHaveEndedAlsoWithLargeErrors) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  const absl::Time begin = absl::Now();
  const absl::Status error =
      Get(pool.Map(SleepAndFail, {0, 300}, {.chunk_size = 1}));
  EXPECT_GE(absl::Now() - begin, absl::Milliseconds(300));
  EXPECT_THAT(error, StatusIs(absl::StatusCode::kInternal));
  EXPECT_GT(error.message().size(), size_t{1} << 20);
  EXPECT_THAT(pool.Shutdown(), IsOk());
}

int TakeFd(UniqueFd fd) { return fd.valid() ? 1 : 0; }
TENON_POOL_FUNCTION(TakeFd);

TEST_F(ProcessPoolTest, ArgumentThatCannotTravelFailsItsOwnFuture) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  EXPECT_THAT(Get(pool.Submit(TakeFd, UniqueFd())),
              StatusIs(absl::StatusCode::kInvalidArgument));
  std::vector<UniqueFd> inputs;
  inputs.emplace_back(dup(STDERR_FILENO));
  inputs.emplace_back();
  inputs.emplace_back(dup(STDERR_FILENO));
  EXPECT_THAT(Get(pool.Map(TakeFd, inputs)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Get(pool.Submit(TakeFd, std::move(inputs[0]))), IsOkAndHolds(1));
}

UniqueFd MakeClosed(int) { return UniqueFd(); }
TENON_POOL_FUNCTION(MakeClosed);

TEST_F(ProcessPoolTest, ResultsThatCannotTravelLeaveTheWorkerAlive) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(Get(pool.Submit(MakeClosed, i)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("cannot pack the result")));
  }
  EXPECT_EQ(pool.counts().started, 2u);
}

// ---- Memory and descriptors ----

absl::StatusOr<Tensor> Double(Tensor input) {
  TENON_ASSIGN_OR_RETURN(const absl::Span<const float> from,
                         input.data<const float>());
  TENON_ASSIGN_OR_RETURN(
      Tensor output, Tensor::CreateShared(kDtypeOf<float>,
                                          {static_cast<int64_t>(from.size())}));
  TENON_ASSIGN_OR_RETURN(const absl::Span<float> to, output.data<float>());
  for (size_t i = 0; i < from.size(); ++i) to[i] = 2 * from[i];
  return output;
}
TENON_POOL_FUNCTION(Double);

TEST_F(ProcessPoolTest, TensorsThereAndBackAndNothingIsKept) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 2}));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor input,
                             Tensor::CreateShared(kDtypeOf<float>, {3}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto values, input.data<float>());
  values[2] = 1.25f;
  const size_t fds = CountOpenFds();
  for (int i = 0; i < 300; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor output,
                               Get(pool.Submit(Double, input)));
    TENON_ASSERT_OK_AND_ASSIGN(const auto doubled, output.data<const float>());
    ASSERT_THAT(doubled, ElementsAre(0, 0, 2.5f));
  }
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

UniqueFd Copy(const UniqueFd& fd) { return UniqueFd(dup(fd.get())); }
TENON_POOL_FUNCTION(Copy);

TEST_F(ProcessPoolTest, ChunksWithMoreDescriptorsThanAMessage) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  std::vector<UniqueFd> inputs(300);
  for (UniqueFd& input : inputs) input = UniqueFd(dup(STDERR_FILENO));
  for (const size_t chunk : {0, 300}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const std::vector<UniqueFd> copies,
        Get(pool.Map(Copy, inputs, {.chunk_size = chunk})));
    EXPECT_EQ(copies.size(), inputs.size());
    for (const UniqueFd& copy : copies) ASSERT_TRUE(copy.valid());
  }
  EXPECT_EQ(pool.counts().started, 1u);
}

UniqueFd Open(int) { return UniqueFd(dup(STDERR_FILENO)); }
TENON_POOL_FUNCTION(Open);

// One message carries 252; errors among the results carry none, and keep their
// positions.
absl::StatusOr<UniqueFd> OpenButAThird(int i) {
  if (i % 3 == 0) return absl::NotFoundError(absl::StrCat(i));
  return Open(i);
}
TENON_POOL_FUNCTION(OpenButAThird);

TEST_F(ProcessPoolTest, ResultsWithMoreDescriptorsThanAMessage) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  std::vector<int> inputs(600);
  std::iota(inputs.begin(), inputs.end(), 1);
  const MapOptions at_once = {.chunk_size = 600};
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<UniqueFd> opened,
                             Get(pool.Map(Open, inputs, at_once)));
  for (const UniqueFd& fd : opened) ASSERT_TRUE(fd.valid());
  EXPECT_THAT(Get(pool.Map(OpenButAThird, inputs, at_once)),
              StatusIs(absl::StatusCode::kNotFound,
                       "pool function 'OpenButAThird', input 2: 3"));
  EXPECT_THAT(Get(pool.Submit(Square, 7)), IsOkAndHolds(49));
  EXPECT_EQ(pool.counts().started, 1u);
}

// ---- Messages to its workers ----

void PrintPid() { printf("%d", getpid()); }
TENON_POOL_FUNCTION(PrintPid);

TEST_F(ProcessPoolTest, OutputOfEachWorkerInItsOwnFile) {
  const std::string path =
      absl::StrCat(testing::TempDir(), "/pool_test_", getpid(), ".");
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create(
          {.workers = 2,
           .initializer = InitializeBy(PrintPid),
           .process = {.stdout_file = absl::StrCat(path, "{index}"),
                       .tee = true}}));
  const std::vector<pid_t> pids = pool.worker_pids();
  EXPECT_TRUE(Becomes([&] { return pool.counts().idle == 2; }));
  EXPECT_THAT(pool.Shutdown(), IsOk());
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = absl::StrCat(path, i);
    std::ifstream file(name);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}),
              absl::StrCat(pids[i]));
    EXPECT_EQ(unlink(name.c_str()), 0);
  }
}

// ---- Pools in children and at exit ----

absl::Status UsePool(Child& child) {
  TENON_ASSIGN_OR_RETURN(ProcessPool pool, ProcessPool::Create({.workers = 2}));
  TENON_ASSIGN_OR_RETURN(const int64_t square, Get(pool.Submit(Square, 12)));
  return Say(child, absl::StrCat(square));
}
TENON_SPAWN_ENTRY("use-pool", UsePool);

TEST_F(ProcessPoolTest, PoolInAChild) {
  EXPECT_THAT(AnswerOf({.entry = "use-pool"}), IsOkAndHolds("144"));
}

// Destroyed with the static objects, when main() has returned.
absl::Status LeavePoolToExit(Child& child) {
  static std::optional<ProcessPool> pool;
  TENON_ASSIGN_OR_RETURN(ProcessPool made, ProcessPool::Create({.workers = 2}));
  pool.emplace(std::move(made));
  TENON_ASSIGN_OR_RETURN(const int64_t square, Get(pool->Submit(Square, 3)));
  return Say(child, absl::StrCat(square));
}
TENON_SPAWN_ENTRY("leave-pool-to-exit", LeavePoolToExit);

TEST_F(ProcessPoolTest, StaticPoolEndsWithTheProgram) {
  EXPECT_THAT(AnswerOf({.entry = "leave-pool-to-exit"}), IsOkAndHolds("9"));
}

TEST_F(ProcessPoolTest, InertInAFork) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  const auto is_inert = [&] {
    EXPECT_THAT(Get(pool.Submit(Square, 1)),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_EQ(pool.counts().workers, 0u);
    EXPECT_TRUE(pool.worker_pids().empty());
    const ProcessPool moved = std::move(pool);
  };
  EXPECT_TRUE(PassesInChild(is_inert, /*may_have_threads=*/true));
  EXPECT_THAT(Get(pool.Submit(Square, 4)), IsOkAndHolds(16));
}

}  // namespace
}  // namespace tenon::spawn
