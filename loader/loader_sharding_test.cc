// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Datasets that ask which worker they are in, and streams that they divide
// among the workers themselves.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The numbers below `size`, each `all`-th from `shard` on, as Numbers has them.
class EveryNth : public SampleStream {
 public:
  EveryNth(int64_t size, int64_t shard, int64_t all)
      : numbers_(size), next_(shard), all_(all) {}
  absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
    if (next_ >= numbers_.size()) return false;
    TENON_RETURN_IF_ERROR(numbers_.Get(next_, random, sample));
    next_ += all_;
    return true;
  }

 private:
  Numbers numbers_;
  int64_t next_;
  int64_t all_;
};

// Divided by the worker's number, as torch's documentation shows it.
class DividedByWorkers : public IterableDataset {
 public:
  explicit DividedByWorkers(int64_t size) : size_(size) {}
  int64_t shards() const override { return kShardPerWorker; }
  SampleSpec spec() const override { return Numbers(0).spec(); }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t) override {
    const WorkerInfo info = GetWorkerInfo().value_or(WorkerInfo());
    if (GetWorkerInfo() && shard != info.index * info.world_size + info.rank) {
      return absl::InternalError("another worker's shard");
    }
    return std::make_unique<EveryNth>(size_, shard,
                                      info.workers * info.world_size);
  }

 private:
  int64_t size_;
};
TENON_LOADER_DATASET(DividedByWorkers(int64_t));

// The same in the consumer only: in workers it has four shards.
class DividedInTheConsumer : public DividedByWorkers {
 public:
  DividedInTheConsumer() : DividedByWorkers(10) {}
  int64_t shards() const override {
    return GetWorkerInfo() ? 4 : kShardPerWorker;
  }
};
TENON_LOADER_DATASET(DividedInTheConsumer());

// One item, what GetWorkerInfo() returned in the constructor and in Get().
class AsksWhoItIs : public Dataset {
 public:
  explicit AsksWhoItIs(int64_t size)
      : size_(size), in_constructor_(GetWorkerInfo()) {}
  int64_t size() const override { return size_; }
  SampleSpec spec() const override {
    return SampleSpec()
        .Add<int64_t>("constructor", {5})
        .Add<int64_t>("get", {5});
  }
  absl::Status Get(int64_t, SampleRandom&, Sample& sample) override {
    TENON_RETURN_IF_ERROR(Write("constructor", in_constructor_, sample));
    return Write("get", GetWorkerInfo(), sample);
  }

 private:
  static absl::Status Write(const char* field,
                            const std::optional<WorkerInfo>& info,
                            Sample& sample) {
    TENON_ASSIGN_OR_RETURN(const auto to, sample.data<int64_t>(field));
    const WorkerInfo none = {.index = -1};
    const WorkerInfo& from = info ? *info : none;
    to[0] = from.index;
    to[1] = from.workers;
    to[2] = static_cast<int64_t>(from.seed);
    to[3] = from.rank;
    to[4] = from.world_size;
    return absl::OkStatus();
  }

  int64_t size_;
  std::optional<WorkerInfo> in_constructor_;
};
TENON_LOADER_DATASET(AsksWhoItIs(int64_t));

struct ShardingCase {
  int workers;
  WorkerKind kind;
};

class LoaderShardingTest : public ::testing::TestWithParam<ShardingCase> {
 protected:
  LoaderOptions Options(int64_t batch_size) const {
    return {.batch_size = batch_size,
            .workers = GetParam().workers,
            .worker_kind = GetParam().kind,
            .seed = 7};
  }
  int workers() const { return GetParam().workers; }
};

INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderShardingTest,
    ::testing::Values(ShardingCase{1, WorkerKind::kProcess},
                      ShardingCase{3, WorkerKind::kProcess},
                      ShardingCase{3, WorkerKind::kThread}),
    [](const auto& test) {
      return absl::StrCat(test.param.kind == WorkerKind::kThread ? "t" : "w",
                          test.param.workers);
    });

TEST_P(LoaderShardingTest, ADatasetMayAskWhichWorkerItIsIn) {
  LoaderOptions options = Options(1);
  options.rank = Rank{.rank = 1, .world_size = 4};
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto loader, Loader::Create<AsksWhoItIs>(options, 2 * workers()));
  EXPECT_EQ(GetWorkerInfo(), std::nullopt);
  int64_t number = 0;
  for (absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    for (const char* const field : {"constructor", "get"}) {
      EXPECT_THAT(*batch->data<int64_t>(field),
                  ElementsAre(number % workers(), workers(), 7, 1, 4));
    }
    ++number;
  }
  EXPECT_EQ(number, 2 * workers());
}

TEST(LoaderInfoTest, WithoutWorkersThereIsNone) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto loader,
                             Loader::Create<AsksWhoItIs>({}, 1));
  for (absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    EXPECT_THAT(*batch->data<int64_t>("get"), ElementsAre(-1, 1, 0, 0, 1));
  }
}

TEST_P(LoaderShardingTest, EachWorkerReadsItsPartOfTheStream) {
  constexpr int64_t kSize = 50;
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto loader, Loader::Create<DividedByWorkers>(Options(4), kSize));
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, epoch));
    std::vector<int64_t> all;
    for (size_t i = 0; i < batches.size(); ++i) {
      const std::vector<int64_t>& values = batches[i].values;
      for (const int64_t value : values) {
        EXPECT_EQ(value % workers(), values[0] % workers());
      }
      all.insert(all.end(), values.begin(), values.end());
    }
    // The first batches are those of the workers in turn.
    for (int i = 0; i < workers(); ++i) {
      EXPECT_EQ(batches[static_cast<size_t>(i)].values[0], i);
    }
    std::sort(all.begin(), all.end());
    std::vector<int64_t> expected(kSize);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
}

TEST_P(LoaderShardingTest, AndEachRank) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < 2; ++rank) {
    LoaderOptions options = Options(4);
    options.rank = Rank{.rank = rank, .world_size = 2};
    TENON_ASSERT_OK_AND_ASSIGN(const auto loader,
                               Loader::Create<DividedByWorkers>(options, 50));
    TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
    for (const Copy& batch : batches) {
      for (const int64_t value : batch.values) EXPECT_EQ(value % 2, rank);
      all.insert(all.end(), batch.values.begin(), batch.values.end());
    }
  }
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(50);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(LoaderInfoTest, WithoutWorkersTheConsumerReadsAll) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto loader,
      Loader::Create<DividedByWorkers>({.batch_size = 4}, 10));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
  ASSERT_EQ(batches.size(), 3);
  EXPECT_THAT(batches[2].values, ElementsAre(8, 9));
}

TEST(LoaderInfoTest, WithoutWorkersARankReadsItsPart) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < 3; ++rank) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto loader,
        Loader::Create<DividedByWorkers>(
            {.batch_size = 4, .rank = Rank{.rank = rank, .world_size = 3}},
            50));
    TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
    EXPECT_EQ(GetWorkerInfo(), std::nullopt);
    for (const Copy& batch : batches) {
      for (const int64_t value : batch.values) EXPECT_EQ(value % 3, rank);
      all.insert(all.end(), batch.values.begin(), batch.values.end());
    }
  }
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(50);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(LoaderInfoTest, MoreWorkersOfAllRanksThanShardsAreRefused) {
  EXPECT_THAT(
      Loader::Create<DividedByWorkers>(
          {.rank =
               Rank{.rank = 5, .world_size = static_cast<int>(kMaxShards) + 1}},
          10),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("a shard for each worker of 4194304 ranks, 4194304 "
                         "shards; want at most 4194303")));
}

TEST(LoaderInfoTest, AutotuneIsRefused) {
  EXPECT_THAT(Loader::Create<DividedByWorkers>({.workers = kAuto}, 10),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("a shard for each worker"),
                             HasSubstr("set workers to a number"))));
}

TEST(LoaderInfoTest, ConsumerAndWorkersMustAgree) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto loader, Loader::Create<DividedInTheConsumer>({.workers = 2}));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("another number of shards in this worker (4) "
                                 "than in the consumer (2)")));
}

}  // namespace
}  // namespace tenon::loader
