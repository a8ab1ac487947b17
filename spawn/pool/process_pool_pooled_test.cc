// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors in blocks of arenas as arguments and results of a pool's tasks.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future_testing.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/pool/result_stream.h"
#include "tenon/spawn/testing/child_testing.h"
#include "tenon/spawn/testing/pooled_functions_testing.h"
#include "tenon/spawn/testing/pooled_tensor_testing.h"

namespace tenon::spawn {
namespace {

class ProcessPoolPooledTest : public ChildTest {};

// ---- There and back ----

TEST_F(ProcessPoolPooledTest, AsArguments) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
  for (int64_t i = 0; i < 200; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, 10, i));
    EXPECT_THAT(Get(pool.Submit(FirstOf, std::move(tensor))), IsOkAndHolds(i));
  }
  EXPECT_EQ(arena->Use().segments, 1u);  // Blocks were reclaimed in between.
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(ProcessPoolPooledTest, AsResults) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  for (int64_t i = 0; i < 200; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor made, Get(pool.Submit(Make, i)));
    EXPECT_THAT(CheckCounting(made, 10, i), IsOk());
    EXPECT_THAT(Get(pool.Submit(CountBlocks)), IsOkAndHolds(1));
  }
  EXPECT_THAT(Get(pool.Submit(CountBlocks)), IsOkAndHolds(0));
}

// The pool is slow between receiving a result and claiming it.
TEST_F(ProcessPoolPooledTest, ResultsWhoseBlocksAreWantedBack) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  const CrashPointHook former = SetCrashPointHook([](const CrashPoint& passed) {
    if (absl::string_view(passed.name()) == "tensor_parcel.received") {
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  for (int64_t i = 0; i < 10; ++i) {
    const auto made = Get(pool.Submit(MakeBesideAThread, i));
    EXPECT_THAT(made, IsOk());
    if (made.ok()) {
      EXPECT_THAT(CheckCounting(*made, 512, i), IsOk());
    }
  }
  SetCrashPointHook(former);
}

TEST_F(ProcessPoolPooledTest, ResultsThatAreKept) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
  std::vector<Tensor> kept;
  for (int64_t i = 0; i < 300; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(kept.emplace_back(), Get(pool.Submit(Make, i)));
  }
  for (int64_t i = 0; i < 300; ++i) {
    EXPECT_THAT(CheckCounting(kept[static_cast<size_t>(i)], 10, i), IsOk());
  }
}

TEST_F(ProcessPoolPooledTest, ResultsOfAnArenaThatIsGone) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(1));
  for (int64_t i = 0; i < 200; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> made,
                               Get(pool.Submit(MakeInNewArena, i)));
    ASSERT_EQ(made.size(), 3u);
    EXPECT_THAT(CheckCounting(made[0], 10, i), IsOk());
    EXPECT_THAT(CheckCounting(made[1], 10, i + 1), IsOk());
    EXPECT_EQ(made[2].storage(), made[0].storage());
  }
}

TEST_F(ProcessPoolPooledTest, ThereAndBack) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
  for (int64_t i = 0; i < 100; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, 10, i));
    TENON_ASSERT_OK_AND_ASSIGN(tensor,
                               Get(pool.Submit(GiveBack, std::move(tensor))));
    EXPECT_THAT(CheckCounting(tensor, 10, i), IsOk());
    // Once more, now that it is a claim.
    TENON_ASSERT_OK_AND_ASSIGN(tensor,
                               Get(pool.Submit(GiveBack, std::move(tensor))));
    EXPECT_THAT(CheckCounting(tensor, 10, i), IsOk());
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(ProcessPoolPooledTest, AChainThroughTheWorkers) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(3));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, 10, 0));
  for (int64_t i = 1; i <= 200; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(tensor,
                               Get(pool.Submit(Follow, std::move(tensor))));
    ASSERT_THAT(CheckCounting(tensor, 10, i), IsOk());
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

// A chunk has far more tensors than a message can carry descriptors.
TEST_F(ProcessPoolPooledTest, MapsOfMany) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
  std::vector<Tensor> inputs;
  for (int64_t i = 0; i < 2000; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(inputs.emplace_back(),
                               MakeCounting(*arena, 10, i));
  }
  TENON_ASSERT_OK_AND_ASSIGN(
      std::vector<Tensor> outputs,
      Get(pool.Map(Follow, inputs, {.chunk_size = 500})));
  inputs.clear();
  ASSERT_EQ(outputs.size(), 2000u);
  for (size_t i = 0; i < outputs.size(); ++i) {
    ASSERT_THAT(CheckCounting(outputs[i], 10, static_cast<int64_t>(i) + 1),
                IsOk());
  }
  outputs.clear();
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(ProcessPoolPooledTest, StreamsWhoseResultsWait) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create({.workers = 2, .max_tasks_per_worker = 7}));
  int64_t next = 0;
  {
    ResultStream<Tensor> results = pool.Stream(
        GiveBack,
        InputGenerator<Tensor>([&]() -> absl::StatusOr<std::optional<Tensor>> {
          if (next == 100) return std::optional<Tensor>();
          TENON_ASSIGN_OR_RETURN(Tensor made, MakeCounting(*arena, 10, next++));
          return std::optional<Tensor>(std::move(made));
        }));
    // The workers that returned them have ended by then.
    absl::SleepFor(absl::Milliseconds(200));
    for (int64_t i = 0; i < 90; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor result, results.Next(Watchdog()));
      ASSERT_THAT(CheckCounting(result, 10, i), IsOk());
    }
  }  // Ten results are never requested.
  EXPECT_THAT(pool.Shutdown(Watchdog()), IsOk());
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(ProcessPoolPooledTest, WorkersThatEndAfterEachTask) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(
      ProcessPool pool,
      ProcessPool::Create({.workers = 2, .max_tasks_per_worker = 1}));
  std::vector<Tensor> kept;
  for (int64_t i = 0; i < 20; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, 10, i));
    auto back = pool.Submit(GiveBack, tensor);
    auto made = pool.Submit(Follow, std::move(tensor));
    TENON_ASSERT_OK_AND_ASSIGN(kept.emplace_back(), Get(std::move(back)));
    TENON_ASSERT_OK_AND_ASSIGN(kept.emplace_back(), Get(std::move(made)));
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    EXPECT_THAT(CheckCounting(kept[i], 10, static_cast<int64_t>(i / 2 + i % 2)),
                IsOk());
  }
  kept.clear();
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(ProcessPoolPooledTest, AsTheInitializersArgument) {
  const auto arena = MakeArena();
  {
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, 10, 1));
    TENON_ASSERT_OK_AND_ASSIGN(
        ProcessPool pool, ProcessPool::Create({.workers = 2,
                                               .max_tasks_per_worker = 2,
                                               .initializer = InitializeBy(
                                                   Keep, std::move(tensor))}));
    for (int i = 0; i < 10; ++i) {
      EXPECT_THAT(Get(pool.Submit(CountBlocks)), IsOkAndHolds(0));
    }
    EXPECT_EQ(arena->Use().blocks_in_use, 1u);  // Held for future workers.
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(ProcessPoolPooledTest, NoDescriptorsAreKept) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool, MakePool(2));
  const auto round = [&](int64_t i) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(Tensor tensor, MakeCounting(*arena, 10, i));
    TENON_ASSIGN_OR_RETURN(tensor, Get(pool.Submit(Follow, tensor)));
    return CheckCounting(tensor, 10, i + 1);
  };
  for (int64_t i = 0; i < 50; ++i) ASSERT_THAT(round(i), IsOk());
  const size_t fds = CountOpenFds();
  for (int64_t i = 0; i < 500; ++i) ASSERT_THAT(round(i), IsOk());
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

}  // namespace
}  // namespace tenon::spawn
