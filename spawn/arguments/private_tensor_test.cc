// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors in private memory as arguments and results: copied, as by
// TensorQueue's Put() (//ipc/tensor_codec:tensor_codec_test).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/futures/future_testing.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/argument_arena.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/pool/result_stream.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/process/start.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/testing/child_testing.h"
#include "tenon/spawn/testing/pooled_functions_testing.h"
#include "tenon/spawn/testing/pooled_tensor_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PrivateTensorTest : public ChildTest {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(arena_, ArgumentArena());
    ChildTest::SetUp();
  }
  void TearDown() override {
    EXPECT_TRUE(NothingIsLeftIn(*arena_));
    ChildTest::TearDown();
  }

 private:
  std::shared_ptr<Arena> arena_;
};

absl::Status Check(bool condition, absl::string_view what) {
  return condition ? absl::OkStatus() : absl::InternalError(what);
}

// Ten elements: first, first + 1, ...
absl::StatusOr<Tensor> MakePrivate(int64_t first) {
  TENON_ASSIGN_OR_RETURN(Tensor tensor,
                         Tensor::Create(kDtypeOf<int64_t>, {10}));
  TENON_ASSIGN_OR_RETURN(const auto values, tensor.data<int64_t>());
  for (int64_t& value : values) value = first++;
  return tensor;
}

// A tensor and a view of its last five elements.
absl::Status CheckViews(const Tensor& whole, const Tensor& tail) {
  TENON_RETURN_IF_ERROR(CheckCounting(whole, 10, 7));
  TENON_RETURN_IF_ERROR(CheckCounting(tail, 5, 12));
  return Check(whole.storage() == tail.storage(), "one storage became two");
}

// ---- Start() ----

absl::Status TakeAll(int, Tensor whole, Tensor tail, Tensor other, Tensor empty,
                     Tensor none) {
  TENON_RETURN_IF_ERROR(CheckViews(whole, tail));
  TENON_RETURN_IF_ERROR(CheckCounting(other, 10, 100));
  TENON_RETURN_IF_ERROR(Check(!other.writable(), "a copy can be written"));
  TENON_RETURN_IF_ERROR(
      Check(empty.spec().shape() == absl::Span<const int64_t>({0, 3}),
            "the empty one has another shape"));
  return Check(none.spec().shape() == Tensor().spec().shape(),
               "no tensor has another shape");
}
TENON_SPAWN_FUNCTION(TakeAll);

TEST_F(PrivateTensorTest, AsArgumentsOfStart) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor whole, MakePrivate(7));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tail, whole.Slice(0, {.start = 5}));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor other, MakePrivate(100));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor empty,
                             Tensor::Create(kDtypeOf<float>, {0, 3}));
  for (const StartMethod method : {StartMethod::kSpawn, StartMethod::kFork}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Processes three, Start(3, TakeAll, {.method = method}, whole, tail,
                               other, empty, Tensor()));
    EXPECT_THAT(three.Join(Watchdog()), IsOk());
  }
  EXPECT_FALSE(whole.is_shared());
}

absl::Status TakeOne(int, Tensor) { return absl::OkStatus(); }
TENON_SPAWN_FUNCTION(TakeOne);

TEST_F(PrivateTensorTest, DeviceMemoryOfNoPoolStartsNoProcess) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      Tensor::FromSpec(
          TensorSpec(),
          Storage::FromLent({.data = reinterpret_cast<std::byte*>(0x10000),
                             .size_bytes = 16,
                             .writable = true,
                             .device = {kDLCUDA, 1}})));
  for (const StartMethod method : {StartMethod::kSpawn, StartMethod::kFork}) {
    EXPECT_THAT(Start(1, TakeOne, {.method = method}, tensor),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("is on cuda:1"),
                               HasSubstr("Tensor::ToCpu()"))));
  }
}

TEST_F(PrivateTensorTest, AForkedProcessCopiesIntoAnArenaOfItsOwn) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, ArgumentArena());
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const auto own, ArgumentArena());
    EXPECT_NE(own->id(), arena->id());
    EXPECT_THAT(ArgumentArena(), IsOkAndHolds(own));
  }));
}

// ---- Pools ----

absl::StatusOr<int> TakeViews(Tensor whole, Tensor tail) {
  TENON_RETURN_IF_ERROR(CheckViews(whole, tail));
  return 1;
}
TENON_POOL_FUNCTION(TakeViews);

// The result is a private tensor, too.
absl::StatusOr<Tensor> OneMore(Tensor tensor) {
  TENON_ASSIGN_OR_RETURN(const int64_t* const first,
                         tensor.at<const int64_t>({0}));
  TENON_RETURN_IF_ERROR(CheckCounting(tensor, 10, *first));
  return MakePrivate(*first + 1);
}
TENON_POOL_FUNCTION(OneMore);

absl::StatusOr<std::vector<Tensor>> MakeViews() {
  TENON_ASSIGN_OR_RETURN(Tensor whole, MakePrivate(7));
  TENON_ASSIGN_OR_RETURN(Tensor tail, whole.Slice(0, {.start = 5}));
  return std::vector<Tensor>{std::move(whole), std::move(tail)};
}
TENON_POOL_FUNCTION(MakeViews);

TEST_F(PrivateTensorTest, AsArgumentsOfATask) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor whole, MakePrivate(7));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tail, whole.Slice(0, {.start = 5}));
  EXPECT_THAT(Get(pool.Submit(TakeViews, whole, tail)), IsOkAndHolds(1));
}

TEST_F(PrivateTensorTest, ArgumentsAreThoseOfTheMomentOfTheCall) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, MakePrivate(7));
  std::vector<futures::Future<Tensor>> results;
  for (int64_t i = 0; i < 20; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor next, MakePrivate(i));
    ASSERT_THAT(tensor.CopyFrom(next), IsOk());
    results.push_back(pool.Submit(OneMore, tensor));
  }
  for (int64_t i = 0; i < 20; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor result,
                               Get(std::move(results[static_cast<size_t>(i)])));
    EXPECT_THAT(CheckCounting(result, 10, i + 1), IsOk());
  }
}

TEST_F(PrivateTensorTest, AsResults) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  for (int i = 0; i < 20; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> views,
                               Get(pool.Submit(MakeViews)));
    ASSERT_EQ(views.size(), 2u);
    EXPECT_THAT(CheckViews(views[0], views[1]), IsOk());
  }
}

TEST_F(PrivateTensorTest, InMaps) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
  std::vector<Tensor> inputs;
  for (int64_t i = 0; i < 200; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(inputs.emplace_back(), MakePrivate(i));
  }
  TENON_ASSERT_OK_AND_ASSIGN(
      const std::vector<Tensor> outputs,
      Get(pool.Map(OneMore, inputs, {.chunk_size = 50})));
  ASSERT_EQ(outputs.size(), inputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_THAT(CheckCounting(outputs[i], 10, static_cast<int64_t>(i) + 1),
                IsOk());
  }
}

TEST_F(PrivateTensorTest, InStreams) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
  int64_t next = 0;
  ResultStream<Tensor> results = pool.Stream(
      OneMore,
      InputGenerator<Tensor>([&]() -> absl::StatusOr<std::optional<Tensor>> {
        if (next == 50) return std::optional<Tensor>();
        TENON_ASSIGN_OR_RETURN(Tensor made, MakePrivate(next++));
        return std::optional<Tensor>(std::move(made));
      }));
  for (int64_t i = 0; i < 50; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor result, results.Next(Watchdog()));
    EXPECT_THAT(CheckCounting(result, 10, i + 1), IsOk());
  }
}

TEST_F(PrivateTensorTest, AsTheInitializersArgument) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor whole, MakePrivate(7));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tail, whole.Slice(0, {.start = 5}));
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create(
          {.workers = 2, .initializer = InitializeBy(TakeViews, whole, tail)}));
  EXPECT_THAT(Get(pool.Submit(TakeViews, whole, tail)), IsOkAndHolds(1));
}

TEST_F(PrivateTensorTest, NoDescriptorsAreKept) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
  const auto round = [&](int64_t i) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const Tensor tensor, MakePrivate(i));
    TENON_ASSIGN_OR_RETURN(const Tensor result,
                           Get(pool.Submit(OneMore, tensor)));
    return CheckCounting(result, 10, i + 1);
  };
  for (int64_t i = 0; i < 50; ++i) ASSERT_THAT(round(i), IsOk());
  const size_t fds = CountOpenFds();
  for (int64_t i = 0; i < 300; ++i) ASSERT_THAT(round(i), IsOk());
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

}  // namespace
}  // namespace tenon::spawn
