// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoaderOptions::overlap_epochs.

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/gated_testing.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/shm_arguments.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LoaderOverlapTest : public LoaderTest {
 protected:
  LoaderOptions Overlapping(int64_t batch_size = 1) const {
    LoaderOptions options = Options(batch_size);
    options.overlap_epochs = true;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderOverlapTest,
    ::testing::Combine(::testing::Values(1, 2, 5),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);
INSTANTIATE_TEST_SUITE_P(
    Threads, LoaderOverlapTest,
    ::testing::Combine(::testing::Values(2),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kThread)),
    LoaderCaseName);

// Epochs that follow one another, are repeated, skipped, and abandoned before
// and after their last batch has been assigned.
std::vector<std::vector<Copy>> ManyEpochs(Loader& loader) {
  std::vector<std::vector<Copy>> epochs;
  const auto run = [&](int64_t epoch) {
    epochs.push_back(*RunEpoch(loader, epoch));
    std::stable_sort(
        epochs.back().begin(), epochs.back().end(),
        [](const Copy& a, const Copy& b) { return a.number < b.number; });
  };
  for (int64_t epoch = 0; epoch < 3; ++epoch) run(epoch);
  run(2);
  run(7);
  for (const int taken : {0, 1, 12, 13}) {
    for (const int64_t next : {8, 9}) {
      EpochRange abandoned = loader.Epoch(8);
      for (int i = 0; i < taken; ++i) {
        EXPECT_THAT(abandoned.Next(Watchdog()), IsOk());
      }
      run(next);
    }
  }
  return epochs;
}

TEST_P(LoaderOverlapTest, EpochsAreTheSame) {
  const auto run = [](LoaderOptions options) {
    options.shuffle = true;
    return ManyEpochs(**Loader::Create<Numbers>(options, 50));
  };
  const auto expected = run({.batch_size = 4, .seed = 7});
  ASSERT_THAT(expected, Each(SizeIs(13)));
  for (const bool in_order : {true, false}) {
    LoaderOptions options = Overlapping(4);
    options.in_order = in_order;
    EXPECT_EQ(run(options), expected);
  }
}

TEST_P(LoaderOverlapTest, EpochsOfAStreamAreTheSame) {
  const auto run = [](const LoaderOptions& options) {
    return ManyEpochs(**Loader::Create<Streams>(
        options, std::vector<int64_t>{13, 0, 16, 7, 1, 6}));
  };
  const auto expected = run({.batch_size = 4, .seed = 7});
  ASSERT_THAT(expected, Each(SizeIs(4 + 4 + 2 + 1 + 2)));
  for (const bool in_order : {true, false}) {
    LoaderOptions options = Overlapping(4);
    options.in_order = in_order;
    EXPECT_EQ(run(options), expected);
  }
}

TEST_P(LoaderOverlapTest, EpochsWithAutotuneAreTheSame) {
  LoaderOptions options = Overlapping(4);
  options.workers = kAuto;
  const auto run = [](const LoaderOptions& with) {
    return ManyEpochs(**Loader::Create<Streams>(
        with, std::vector<int64_t>{13, 0, 16, 7, 1, 6}));
  };
  EXPECT_EQ(run(options), run({.batch_size = 4, .seed = 7}));
}

TEST_P(LoaderOverlapTest, EpochsWithoutBatches) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Overlapping(), 0));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_THAT(RunEpoch(*loader, epoch), IsOkAndHolds(IsEmpty()));
  }
}

// The number of batches that workers have made and the consumer has not taken
// yet never falls, between epochs neither.
TEST(LoaderOverlapAheadTest, WorkersAreAlwaysAhead) {
  for (const bool in_order : {true, false}) {
    constexpr int64_t kSize = 20;
    constexpr int64_t kAhead = 2 * 3;
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create<Numbers>({.workers = 2,
                                 .worker_kind = WorkerKind::kThread,
                                 .prefetch = 3,
                                 .in_order = in_order,
                                 .overlap_epochs = true},
                                kSize));
    const int64_t before = SamplesMade();
    int64_t taken = 0;
    for (int64_t n = 0; n < 3; ++n) {
      EpochRange epoch = loader->Epoch(n);
      for (int64_t i = 0; i < kSize; ++i) {
        ASSERT_THAT(epoch.Next(Watchdog()),
                    IsOkAndHolds(::testing::Ne(std::nullopt)));
        ++taken;
        EXPECT_TRUE(Becomes([&] {
          return SamplesMade() - before == taken + kAhead;
        })) << SamplesMade() - before
            << " made, " << taken << " taken";
      }
      EXPECT_THAT(epoch.Next(Watchdog()), IsOkAndHolds(Eq(std::nullopt)));
    }
  }
}

// Of a stream when its end has been seen.
TEST(LoaderOverlapAheadTest, WorkersGoOnAfterTheEndOfAStream) {
  for (const bool in_order : {true, false}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create<Streams>({.workers = 2,
                                 .worker_kind = WorkerKind::kThread,
                                 .prefetch = 3,
                                 .in_order = in_order,
                                 .overlap_epochs = true},
                                std::vector<int64_t>{9, 9}));
    const int64_t before = SamplesMade();
    for (int64_t n = 0; n < 3; ++n) {
      EXPECT_THAT(RunEpoch(*loader, n), IsOkAndHolds(SizeIs(18)));
      const int64_t made = 18 * (n + 1) + 2 * 3;
      EXPECT_TRUE(Becomes([&] { return SamplesMade() - before == made; }))
          << SamplesMade() - before;
    }
  }
}

TEST(LoaderOverlapAheadTest, WithoutTheOptionWorkersIdleBetweenEpochs) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Numbers>(
                       {.workers = 2, .worker_kind = WorkerKind::kThread}, 20));
  const int64_t before = SamplesMade();
  EXPECT_THAT(RunEpoch(*loader, 0), IsOk());
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(SamplesMade() - before, 20);
}

// Epoch 1 cannot be made.
class OneEpoch : public SequentialSampler {
 public:
  using SequentialSampler::SequentialSampler;
  void Fill(int64_t epoch, int64_t first, absl::Span<int64_t> to) override {
    if (epoch == 1) throw std::runtime_error("no other epoch");
    SequentialSampler::Fill(epoch, first, to);
  }
};

TEST_P(LoaderOverlapTest, ErrorsOfTheNextEpochAreThoseOfItsBatches) {
  LoaderOptions options = Overlapping(4);
  options.sampler = std::make_shared<OneEpoch>(20);
  for (const bool in_order : {true, false}) {
    options.in_order = in_order;
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Numbers>(options, 20));
    EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(5)));
    EXPECT_THAT(RunEpoch(*loader, 2), IsOkAndHolds(SizeIs(5)));
    EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(5)));
    int errors = 0;
    for (const absl::StatusOr<Batch>& batch : loader->Epoch(1)) {
      EXPECT_THAT(batch,
                  StatusIs(StatusCode::kInternal, HasSubstr("no other epoch")));
      ++errors;
    }
    EXPECT_EQ(errors, 5);
  }
}

// As ready, a batch of the next epoch is no batch of this one, and does not
// keep the consumer awake.
TEST_P(LoaderOverlapTest, ASlowBatchIsWaitedForBeforeTheNextEpoch) {
  if (workers() != 2) GTEST_SKIP() << "of two workers";
  const Tensor gate = *Tensor::CreateShared(kDtypeOf<int64_t>, {1});
  LoaderOptions options = Overlapping();
  options.in_order = false;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Gated>(options, gate));
  EpochRange epoch = loader->Epoch(0);
  const auto next = [&]() -> int64_t {
    const auto batch = epoch.Next(Watchdog());
    return batch.ok() && batch->has_value() ? (*batch)->number() : -1;
  };
  std::vector<int64_t> numbers;
  for (int i = 0; i < 8; ++i) numbers.push_back(next());
  EXPECT_THAT(numbers, ElementsAre(1, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(
      epoch.Next(Deadline::After(absl::Milliseconds(50))),
      StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("of the next epoch")));
  std::atomic_ref(gate.data<int64_t>()->front()).store(1);
  EXPECT_EQ(next(), 0);
  EXPECT_EQ(next(), 2);
  EXPECT_THAT(epoch.Next(Watchdog()), IsOkAndHolds(Eq(std::nullopt)));
  EXPECT_THAT(RunEpoch(*loader, 1), IsOkAndHolds(SizeIs(10)));
}

TEST_P(LoaderOverlapTest, AWorkerThatDiesBetweenEpochsIsAnError) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Overlapping(), 20));
  if (loader->worker_pids().empty()) GTEST_SKIP() << "of processes";
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(20)));
  ASSERT_EQ(kill(loader->worker_pids()[0], SIGKILL), 0);
  EXPECT_THAT(RunEpoch(*loader, 1),
              StatusIs(StatusCode::kAborted, HasSubstr("worker 0")));
}

}  // namespace
}  // namespace tenon::loader
