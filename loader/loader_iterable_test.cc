// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Loaders of iterable datasets.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Sizes = std::vector<int64_t>;

class LoaderIterableTest : public LoaderTest {};
INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderIterableTest,
    ::testing::Combine(::testing::Values(0, 1, 2, 5),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);
INSTANTIATE_TEST_SUITE_P(
    Threads, LoaderIterableTest,
    ::testing::Combine(::testing::Values(2),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kThread)),
    LoaderCaseName);

std::vector<int64_t> FirstValues(const std::vector<Copy>& batches) {
  std::vector<int64_t> first;
  for (const Copy& batch : batches) first.push_back(batch.values.at(0));
  return first;
}

TEST_P(LoaderIterableTest, BatchesOfTheShardsInTurn) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Streams>(Options(7), Sizes{0, 4, 20}));
  EXPECT_EQ(loader->samples(), -1);
  EXPECT_EQ(loader->batches(), -1);
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, epoch));
    ASSERT_THAT(batches, SizeIs(4));
    EXPECT_THAT(batches[0].values, ElementsAre(1000, 1001, 1002, 1003));
    EXPECT_THAT(batches[1].values, SizeIs(7));
    EXPECT_THAT(batches[3].values,
                ElementsAre(2014, 2015, 2016, 2017, 2018, 2019));
    EXPECT_EQ(batches[0].number, 1);
    EXPECT_EQ(batches[3].number, 8);
  }
}

TEST_P(LoaderIterableTest, DropLastDropsThatOfEachShard) {
  LoaderOptions options = Options(7);
  options.drop_last = true;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Streams>(options, Sizes{0, 4, 20}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
  EXPECT_THAT(FirstValues(batches), ElementsAre(2000, 2007));
}

TEST_P(LoaderIterableTest, SamplesOneByOne) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Streams>(Options(), Sizes{5, 3}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
  EXPECT_THAT(FirstValues(batches),
              ElementsAre(0, 1000, 1, 1001, 2, 1002, 3, 4));
}

TEST_P(LoaderIterableTest, BatchesDoNotDependOnTheWorkers) {
  const auto run = [&](int with_workers) {
    LoaderOptions options = Options(4);
    options.workers = with_workers;
    auto loader =
        *Loader::Create<Streams>(options, Sizes{13, 0, 40, 7, 1, 22, 8});
    std::vector<std::vector<Copy>> epochs;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      epochs.push_back(*RunEpoch(*loader, epoch));
    }
    return epochs;
  };
  const auto expected = run(0);
  EXPECT_THAT(expected[0], SizeIs(4 + 10 + 2 + 1 + 6 + 2));
  EXPECT_NE(expected[0], expected[1]);  // In the random numbers.
  EXPECT_EQ(run(workers()), expected);
}

TEST_P(LoaderIterableTest, AShardIsReadByOneWorker) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Streams>(Options(), Sizes{9, 9, 9}));
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    const int64_t shard = batch->data<int64_t>("value")->front() / 1000;
    EXPECT_EQ(batch->worker(), workers() == 0 ? -1 : shard % workers());
  }
}

TEST_P(LoaderIterableTest, AnAbandonedEpochBeginsAgain) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Streams>(Options(2), Sizes{50, 60}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, RunEpoch(*loader, 0));
  for (int i = 0; i < 20; ++i) {
    EpochRange abandoned = loader->Epoch(0);
    for (int n = 0; n < i % 4; ++n) {
      ASSERT_THAT(abandoned.Next(Watchdog()), IsOk());
    }
  }
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(whole));
}

TEST_P(LoaderIterableTest, EmptyShards) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Streams>(Options(2), Sizes{0, 0, 0}));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(IsEmpty()));
  EpochRange epoch = loader->Epoch(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(epoch.Next(Watchdog()),
                IsOkAndHolds(::testing::Eq(std::nullopt)));
  }
}

TEST_P(LoaderIterableTest, AnErrorEndsItsShardAndNoOther) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Streams>(Options(2), Sizes{3, -1, 4}));
  std::vector<int64_t> good;
  std::vector<absl::Status> errors;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    if (batch.ok()) good.push_back(batch->number());
    if (!batch.ok()) errors.push_back(batch.status());
  }
  EXPECT_THAT(good, ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(errors,
              ElementsAre(StatusIs(StatusCode::kNotFound,
                                   HasSubstr("shard 1: no such file"))));
}

// The next batch of the shard would else have the samples of the one that found
// no memory.
TEST(LoaderIterableMemoryTest, ABatchWithoutMemoryEndsItsShard) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Streams>({.batch_size = 10'000}, Sizes{1'000'000}));
  EpochRange epoch = loader->Epoch(0);
  std::vector<Batch> kept;
  absl::Status shortage;
  {
    const FewFds none(0);  // For another segment.
    while (shortage.ok() && kept.size() < 99) {
      absl::StatusOr<std::optional<Batch>> batch = epoch.Next();
      shortage = batch.status();
      if (batch.ok()) kept.push_back(**std::move(batch));
    }
  }
  EXPECT_THAT(shortage, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_THAT(epoch.Next(), IsOkAndHolds(::testing::Eq(std::nullopt)));
}

// Two of the shards are open at a time; a third one is an error.
class TwoOpen : public Streams {
 public:
  using Streams::Streams;
  int64_t open_shards() const override { return 2; }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t epoch) override {
    TENON_ASSIGN_OR_RETURN(auto stream, Streams::Open(shard, epoch));
    auto counted = std::make_unique<Counted>(std::move(stream));
    if (open <= 2) return counted;
    return absl::ResourceExhaustedError("a third open shard");
  }

 private:
  static inline std::atomic<int> open = 0;  // In this process.

  class Counted : public SampleStream {
   public:
    explicit Counted(std::unique_ptr<SampleStream> stream)
        : stream_(std::move(stream)) {
      ++open;
    }
    ~Counted() override { --open; }
    absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
      return stream_->Next(random, sample);
    }

   private:
    std::unique_ptr<SampleStream> stream_;
  };
};
TENON_LOADER_DATASET(TwoOpen(std::vector<int64_t>));

TEST_P(LoaderIterableTest, AShardThatEndsMakesRoomForTheNext) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<TwoOpen>(Options(), Sizes{3, 1, 2, 2, 0}));
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, epoch));
    EXPECT_THAT(FirstValues(batches),
                ElementsAre(0, 1000, 1, 3000, 2, 3001, 2000, 2001));
    EXPECT_THAT(NumbersOf(batches), ElementsAre(0, 1, 2, 3, 4, 5, 6, 8));
  }
}

TEST_P(LoaderIterableTest, ManyShardsOfWhichFewAreOpen) {
  LoaderOptions options = Options(3);
  const Sizes sizes(500, 2);
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<TwoOpen>(options, sizes));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
  ASSERT_THAT(batches, SizeIs(500));
  for (int64_t i = 0; i < 500; ++i) {
    EXPECT_THAT(batches[static_cast<size_t>(i)].values,
                ElementsAre(1000 * i, 1000 * i + 1));
  }
}

TEST_P(LoaderIterableTest, AnErrorEndsItsShardAndNotItsLane) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<TwoOpen>(Options(2), Sizes{3, -1, 4, 2}));
  std::vector<int64_t> first;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    first.push_back(batch.ok() ? batch->data<int64_t>("value")->front() : -1);
  }
  EXPECT_THAT(first, ElementsAre(0, -1, 2, 3000, 2000, 2002));
}

TEST_P(LoaderIterableTest, RanksReadEachShardOnce) {
  const auto run = [&](std::optional<Rank> rank) {
    LoaderOptions options = Options(4);
    options.rank = std::move(rank);
    return *RunEpoch(
        **Loader::Create<Streams>(options, Sizes{13, 0, 40, 7, 1, 22, 8}), 2);
  };
  std::vector<Copy> all = run(Rank{.rank = 1, .world_size = 2});
  for (const Copy& batch : all) {
    EXPECT_EQ(batch.values[0] / 1000 % 2, 1);
  }
  for (Copy& batch : run(Rank{.rank = 0, .world_size = 2})) {
    all.push_back(std::move(batch));
  }
  std::sort(all.begin(), all.end(),
            [](const Copy& a, const Copy& b) { return a.number < b.number; });
  EXPECT_EQ(all, run(std::nullopt));
}

TEST_P(LoaderIterableTest, RefusesMoreRanksThanOpenShards) {
  LoaderOptions options = Options();
  options.rank = Rank{.rank = 0, .world_size = 3};
  EXPECT_THAT(
      Loader::Create<TwoOpen>(options, Sizes{1, 2, 3, 4}),
      StatusIs(StatusCode::kInvalidArgument,
               "rank 0: Loader::Create(): the dataset has 2 open shards (of "
               "4); want at least one for each of 3 ranks: more shards(), or "
               "open_shards()"));
}

// Rank 1 of 2 has one lane.
TEST(LoaderIterableTuningTest, NoMoreWorkersThanLanesOfTheRank) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Streams>({.workers = kAuto,
                               .worker_kind = WorkerKind::kThread,
                               .rank = Rank{.rank = 1, .world_size = 2}},
                              Sizes{2, 2, 2}));
  EXPECT_THAT(loader->tuning(), HasSubstr("of at most 1"));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
  EXPECT_THAT(FirstValues(batches), ElementsAre(1000, 1001));
}

TEST_P(LoaderIterableTest, SkipsBadSamplesAndSaysWhich) {
  LoaderOptions options = Options(10);
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("BadStreams", options, Sizes{20}));
  EpochRange epoch = loader->Epoch(0);
  for (int64_t i = 0; i < 2; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(auto batch, epoch.Next(Watchdog()));
    ASSERT_TRUE(batch.has_value());
    EXPECT_EQ(batch->size(), 8);
    ASSERT_THAT(batch->skipped(), SizeIs(2));
    EXPECT_EQ(batch->skipped()[0].index, 10 * i + 3);
    EXPECT_EQ(batch->skipped()[1].position, PositionInShard(0, 10 * i + 7));
  }
  EXPECT_THAT(epoch.Next(Watchdog()),
              IsOkAndHolds(::testing::Eq(std::nullopt)));
}

TEST_P(LoaderIterableTest, RefusesAnOrderAndNoShards) {
  LoaderOptions options = Options();
  options.shuffle = true;
  EXPECT_THAT(Loader::Create<Streams>(options, Sizes{5}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("gives the order of its samples itself")));
  options = Options();
  options.sampler = std::make_shared<SequentialSampler>(5);
  EXPECT_THAT(Loader::Create<Streams>(options, Sizes{5}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(
      Loader::Create<Streams>(Options(), Sizes{}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("has 0 shards")));
}

}  // namespace
}  // namespace tenon::loader
