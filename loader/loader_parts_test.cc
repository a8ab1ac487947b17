// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The first batch of an epoch, of which each worker makes a part.

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/on_sample_error.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/shm_arguments.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int64_t kBatchSize = 7;

// A sample of the first batch is made once each of `seen` has begun one: the
// worker's element of it is not 0.
class Meets : public Numbers {
 public:
  explicit Meets(Tensor seen) : Numbers(100), seen_(std::move(seen)) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    TENON_ASSIGN_OR_RETURN(const auto seen, seen_.data<int64_t>());
    const Deadline watchdog = Watchdog();
    if (index < kBatchSize) {
      const auto own = static_cast<size_t>(GetWorkerInfo()->index);
      std::atomic_ref(seen[own]).store(1);
      for (int64_t& worker : seen) {
        while (std::atomic_ref(worker).load() == 0) {
          if (watchdog.has_passed()) return absl::DeadlineExceededError("meet");
          absl::SleepFor(absl::Milliseconds(1));
        }
      }
    }
    return Numbers::Get(index, random, sample);
  }

 private:
  Tensor seen_;
};
TENON_LOADER_DATASET(Meets(Tensor));

class LoaderPartsTest : public LoaderTest {
 protected:
  absl::StatusOr<std::vector<Copy>> WithoutWorkers(LoaderOptions options,
                                                   int64_t size,
                                                   int64_t epoch) {
    options.workers = 0;
    TENON_ASSIGN_OR_RETURN(auto loader, Loader::Create<Numbers>(options, size));
    return RunEpoch(*loader, epoch);
  }
};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderPartsTest,
    ::testing::Combine(::testing::Values(2, 3),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess,
                                         WorkerKind::kThread)),
    LoaderCaseName);
INSTANTIATE_TEST_SUITE_P(
    Names, LoaderPartsTest,
    ::testing::Combine(::testing::Values(2),
                       ::testing::Values(SharingStrategy::kFileSystem),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);

TEST_P(LoaderPartsTest, EachWorkerMakesAPartOfTheFirstBatch) {
  const Tensor seen = *Tensor::CreateShared(kDtypeOf<int64_t>, {workers()});
  std::optional<Batch> first;
  {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader, Loader::Create<Meets>(Options(kBatchSize), seen));
    EpochRange epoch = loader->Epoch(0);
    TENON_ASSERT_OK_AND_ASSIGN(first, epoch.Next(Watchdog()));
    ASSERT_TRUE(first.has_value());
    TENON_ASSERT_OK_AND_ASSIGN(const auto second, epoch.Next(Watchdog()));
    ASSERT_TRUE(second.has_value());
    EXPECT_EQ(second->number(), 1);
    EXPECT_EQ(second->worker(), 1);
  }
  EXPECT_EQ(first->number(), 0);
  EXPECT_EQ(first->worker(), 0);
  EXPECT_THAT(first->data<int64_t>("value"),
              IsOkAndHolds(ElementsAre(0, 1, 2, 3, 4, 5, 6)));
}

TEST_P(LoaderPartsTest, BatchesAreThoseOfOneWorker) {
  for (const int64_t size : {1, 2, 3, 6, 7, 8, 50}) {
    LoaderOptions options = Options(kBatchSize);
    options.shuffle = true;
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Numbers>(options, size));
    for (const int64_t epoch : {0, 1}) {
      TENON_ASSERT_OK_AND_ASSIGN(const auto want,
                                 WithoutWorkers(options, size, epoch));
      EXPECT_THAT(RunEpoch(*loader, epoch), IsOkAndHolds(want)) << size;
    }
  }
}

TEST_P(LoaderPartsTest, TheFirstErrorOfAPartIsThatOfTheBatch) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", Options(10)));
  EpochRange epoch = loader->Epoch(0);
  for (const char* sample : {"sample 3", "sample 13"}) {
    EXPECT_THAT(epoch.Next(Watchdog()),
                StatusIs(StatusCode::kDataLoss,
                         AllOf(HasSubstr("worker"), HasSubstr(sample))));
  }
}

TEST_P(LoaderPartsTest, SkippedSamplesLeaveNoGap) {
  LoaderOptions options = Options(10);
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", options));
  EpochRange epoch = loader->Epoch(0);
  TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->size(), 8);
  EXPECT_THAT(batch->data<int64_t>("value"),
              IsOkAndHolds(ElementsAre(0, 1, 2, 4, 5, 6, 8, 9)));
  ASSERT_THAT(batch->skipped(), SizeIs(2));
  EXPECT_EQ(batch->skipped()[0].position, 3);
  EXPECT_EQ(batch->skipped()[1].position, 7);
}

TEST_P(LoaderPartsTest, AnEpochAbandonedAmongItsParts) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("Sleeps", Options(6), int64_t{10}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto want,
                             WithoutWorkers(Options(6), 1000, 1));
  for (int i = 0; i < 3; ++i) {
    EpochRange epoch = loader->Epoch(0);
    EXPECT_THAT(epoch.Next(Deadline::After(absl::Milliseconds(15))).status(),
                AnyOf(IsOk(), StatusIs(StatusCode::kDeadlineExceeded)));
    EpochRange next = loader->Epoch(1);
    for (size_t k = 0; k < 3; ++k) {
      TENON_ASSERT_OK_AND_ASSIGN(const auto batch, next.Next(Watchdog()));
      ASSERT_TRUE(batch.has_value());
      EXPECT_EQ(CopyOf(*batch), want[k]);
    }
  }
}

}  // namespace
}  // namespace tenon::loader
