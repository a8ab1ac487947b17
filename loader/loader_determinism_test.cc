// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The batches of an epoch are bit-identical for any number of workers, of any
// kind and start method, and for any number of ranks.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/window_shuffle.h"
#include "tenon/loader/datasets/concat_dataset.h"
#include "tenon/loader/datasets/subset_dataset.h"
#include "tenon/loader/datasets/transform_dataset.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/sampling/batch_sampler.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {
namespace {

using ::testing::SizeIs;

// Streams in another order, `open` of them open at a time.
class ShuffledStreams : public Streams {
 public:
  ShuffledStreams(std::vector<int64_t> sizes, int64_t open)
      : Streams(std::move(sizes)), open_(open) {}
  int64_t open_shards() const override { return open_; }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t epoch) override {
    TENON_ASSIGN_OR_RETURN(auto stream, Streams::Open(shard, epoch));
    return WindowShuffle::Create(std::move(stream), spec(), 6);
  }

 private:
  int64_t open_;
};
TENON_LOADER_DATASET(ShuffledStreams(std::vector<int64_t>, int64_t));

// Items that take longer than others: batches are not ready in their order.
class Uneven : public Numbers {
 public:
  using Numbers::Numbers;
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    if (index % 5 == 0) absl::SleepFor(absl::Microseconds(index % 3 * 400));
    return Numbers::Get(index, random, sample);
  }
};
TENON_LOADER_DATASET(Uneven(int64_t));

// Datasets of datasets: every third item of twice 50, changed.
class Combined : public Dataset {
 public:
  Combined() {
    std::vector<std::unique_ptr<Dataset>> parts;
    for (int i = 0; i < 2; ++i) parts.push_back(std::make_unique<Uneven>(50));
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < 100; i += 3) indices.push_back(i);
    dataset_ = *TransformDataset::Create(
        *SubsetDataset::Create(*ConcatDataset::Create(std::move(parts)),
                               indices),
        [](SampleRandom& random, Sample& sample) {
          const auto noise = sample.data<float>("noise");
          for (float& value : *noise) {
            value += static_cast<float>(random.Uniform());
          }
          return absl::OkStatus();
        });
  }
  int64_t size() const override { return dataset_->size(); }
  SampleSpec spec() const override { return dataset_->spec(); }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    return dataset_->Get(index, random, sample);
  }
  absl::Status GetBatch(absl::Span<const int64_t> indices,
                        SampleBatch& samples) override {
    return dataset_->GetBatch(indices, samples);
  }

 private:
  std::unique_ptr<Dataset> dataset_;
};
TENON_LOADER_DATASET(Combined());

struct Case {
  int workers = 0;
  WorkerKind kind = WorkerKind::kProcess;
  std::optional<spawn::StartMethod> method;
};

bool ByNumber(const Copy& a, const Copy& b) { return a.number < b.number; }

std::vector<Case> AllCases() {
  std::vector<Case> cases = {{}};
  for (const int workers : {1, 2, 5}) {
    cases.push_back({.workers = workers, .kind = WorkerKind::kThread});
    for (const spawn::StartMethod method : spawn::AllStartMethods()) {
      cases.push_back({.workers = workers, .method = method});
    }
  }
  return cases;
}

class LoaderDeterminismTest : public ::testing::TestWithParam<Case> {
 protected:
  static LoaderOptions Options(const Case& with) {
    return {.batch_size = 4,
            .workers = with.workers,
            .worker_kind = with.kind,
            .start_method = with.method,
            .seed = 7};
  }
  // Two epochs, in the order of the numbers of their batches.
  static absl::StatusOr<std::vector<Copy>> TwoEpochs(
      absl::StatusOr<std::unique_ptr<Loader>> loader) {
    TENON_RETURN_IF_ERROR(loader.status());
    std::vector<Copy> all;
    for (const int64_t epoch : {0, 3}) {
      TENON_ASSIGN_OR_RETURN(auto batches, RunEpoch(**loader, epoch));
      std::stable_sort(batches.begin(), batches.end(), ByNumber);
      all.insert(all.end(), batches.begin(), batches.end());
    }
    return all;
  }
  static auto Mapped(LoaderOptions options) {
    options.shuffle = true;
    return TwoEpochs(Loader::Create<Uneven>(std::move(options), 73));
  }
  static auto Iterated(const LoaderOptions& options) {
    return TwoEpochs(Loader::Create<ShuffledStreams>(
        options, std::vector<int64_t>{13, 0, 40, 7, 1, 22, 8}, 7));
  }
};
INSTANTIATE_TEST_SUITE_P(
    , LoaderDeterminismTest, ::testing::ValuesIn(AllCases()),
    [](const ::testing::TestParamInfo<Case>& test) {
      const Case& with = test.param;
      return absl::StrCat(
          with.workers, "_",
          with.kind == WorkerKind::kThread ? "threads"
          : with.method ? std::string(spawn::StartMethodName(*with.method))
                        : "local");
    });

TEST_P(LoaderDeterminismTest, OfASampler) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, Mapped(Options({})));
  ASSERT_THAT(expected, SizeIs(2 * 19));
  EXPECT_NE(expected[0].values, expected[19].values);  // Of another epoch.
  EXPECT_THAT(Mapped(Options(GetParam())), IsOkAndHolds(expected));
}

TEST_P(LoaderDeterminismTest, OfAnIterableDataset) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, Iterated(Options({})));
  ASSERT_THAT(expected, SizeIs(2 * (4 + 10 + 2 + 1 + 6 + 2)));
  EXPECT_NE(expected[0].values, expected[25].values);
  EXPECT_THAT(Iterated(Options(GetParam())), IsOkAndHolds(expected));
}

TEST_P(LoaderDeterminismTest, AsReadyEachBatchIsTheSame) {
  LoaderOptions options = Options(GetParam());
  options.in_order = false;
  EXPECT_EQ(*Mapped(options), *Mapped(Options({})));
  EXPECT_EQ(*Iterated(options), *Iterated(Options({})));
}

TEST_P(LoaderDeterminismTest, OfABatchSampler) {
  const auto run = [](LoaderOptions options) {
    options.batch_size = 1;
    options.batch_sampler = *FixedBatchSampler::Create(
        *RandomSampler::Create({.dataset_size = 73, .seed = 7}), 5);
    return TwoEpochs(Loader::Create<Uneven>(options, 73));
  };
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, run(Options({})));
  ASSERT_THAT(expected, SizeIs(2 * 15));
  EXPECT_THAT(run(Options(GetParam())), IsOkAndHolds(expected));
}

TEST_P(LoaderDeterminismTest, OfSkippedSamples) {
  const auto run = [](LoaderOptions options) {
    options.on_sample_error = OnSampleError::kSkip;
    return TwoEpochs(Loader::Create("Bad", options));
  };
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, run(Options({})));
  ASSERT_THAT(expected, SizeIs(2 * 25));
  EXPECT_THAT(expected[0].values, SizeIs(3));
  EXPECT_THAT(run(Options(GetParam())), IsOkAndHolds(expected));
}

TEST_P(LoaderDeterminismTest, OfGetBatchAndDatasetsOfDatasets) {
  const auto bulk = [](const LoaderOptions& options) {
    return TwoEpochs(Loader::Create("Bulk", options, int64_t{50}));
  };
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, bulk(Options({})));
  EXPECT_THAT(bulk(Options(GetParam())), IsOkAndHolds(expected));
  EXPECT_THAT(TwoEpochs(Loader::Create<Numbers>(Options(GetParam()), 50)),
              IsOkAndHolds(expected));
  const auto combined = [](const LoaderOptions& options) {
    return TwoEpochs(Loader::Create<Combined>(options));
  };
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, combined(Options({})));
  ASSERT_THAT(whole, SizeIs(2 * 9));
  EXPECT_THAT(combined(Options(GetParam())), IsOkAndHolds(whole));
}

// Interleaved, the batches of all ranks are those of one process.
TEST_P(LoaderDeterminismTest, OfAnyNumberOfRanks) {
  const auto run = [&](const Case& with, const Rank& rank) {
    LoaderOptions options = Options(with);
    options.sampler = *DistributedSampler::Create(
        *RandomSampler::Create({.dataset_size = 72, .seed = 7}), rank,
        {.batch_size = 4});
    return RunEpoch(**Loader::Create<Numbers>(options, 72), 3);
  };
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, run({}, {}));
  ASSERT_THAT(whole, SizeIs(18));
  for (const int ranks : {1, 2, 3}) {
    std::vector<Copy> interleaved(whole.size());
    for (int rank = 0; rank < ranks; ++rank) {
      TENON_ASSERT_OK_AND_ASSIGN(
          auto part, run(GetParam(), {.rank = rank, .world_size = ranks}));
      ASSERT_THAT(part, SizeIs(18 / ranks));
      for (Copy& batch : part) {
        batch.number = batch.number * ranks + rank;
        interleaved[static_cast<size_t>(batch.number)] = batch;
      }
    }
    EXPECT_EQ(interleaved, whole) << ranks << " ranks";
  }
}

// The lanes of all ranks, by the numbers of their batches.
TEST_P(LoaderDeterminismTest, OfAnyNumberOfRanksOfAnIterableDataset) {
  const auto run = [&](const Case& with, const std::optional<Rank>& rank) {
    LoaderOptions options = Options(with);
    options.rank = rank;
    return RunEpoch(
        **Loader::Create<ShuffledStreams>(
            options, std::vector<int64_t>{13, 0, 40, 7, 1, 22, 8, 5}, 4),
        3);
  };
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, run({}, std::nullopt));
  ASSERT_THAT(whole, SizeIs(4 + 10 + 2 + 1 + 6 + 2 + 2));
  for (const int ranks : {1, 2, 3}) {
    std::vector<Copy> all;
    for (int rank = 0; rank < ranks; ++rank) {
      TENON_ASSERT_OK_AND_ASSIGN(
          const auto part,
          run(GetParam(), Rank{.rank = rank, .world_size = ranks}));
      EXPECT_TRUE(std::is_sorted(part.begin(), part.end(), ByNumber));
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end(), ByNumber);
    EXPECT_EQ(all, whole) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace tenon::loader
