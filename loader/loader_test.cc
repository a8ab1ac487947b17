// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a loader gives, with any number of workers. What becomes of workers:
// loader_worker_test.cc.

#include "tenon/loader/loader.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/exchange/dlpack.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderTest,
    ::testing::Combine(::testing::Values(0, 1, 2, 5),
                       ::testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);
INSTANTIATE_TEST_SUITE_P(
    Threads, LoaderTest,
    ::testing::Combine(::testing::Values(1, 2, 5),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kThread)),
    LoaderCaseName);

TEST_P(LoaderTest, GivesAllBatchesInOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(4), 10));
  EXPECT_EQ(loader->samples(), 10);
  EXPECT_EQ(loader->batches(), 3);
  EXPECT_EQ(loader->dataset().size(), 10);
  TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*loader, 0));
  ASSERT_THAT(batches, SizeIs(3));
  EXPECT_THAT(batches[0].values, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(batches[1].values, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(batches[2].values, ElementsAre(8, 9));
  EXPECT_THAT(batches[2].noise, SizeIs(2 * kNoiseSize));
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(batches[i].number, i);
}

TEST_P(LoaderTest, AnEpochIsARange) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(4), 10));
  std::vector<int64_t> numbers;
  for (absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    numbers.push_back(batch->number());
  }
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2));
  numbers.clear();
  EpochRange again = loader->Epoch(1);
  std::ranges::transform(again, std::back_inserter(numbers),
                         [](const auto& batch) { return batch->number(); });
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2));
}

TEST_P(LoaderTest, AnEpochIsIteratedOverOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(4), 10));
  EpochRange epoch = loader->Epoch(0);
  EXPECT_THAT(*epoch.begin(), IsOk());
  int elements = 0;
  for (const absl::StatusOr<Batch>& batch : epoch) {
    EXPECT_THAT(batch, StatusIs(StatusCode::kFailedPrecondition,
                                HasSubstr("call Loader::Epoch() again")));
    ++elements;
  }
  EXPECT_EQ(elements, 1);
}

TEST_P(LoaderTest, AfterItsEndAnEpochStaysEmpty) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(4), 3));
  EpochRange epoch = loader->Epoch(0);
  EXPECT_THAT(epoch.Next(Watchdog()),
              IsOkAndHolds(::testing::Ne(std::nullopt)));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(epoch.Next(), IsOkAndHolds(::testing::Eq(std::nullopt)));
  }
}

TEST_P(LoaderTest, RefusesANegativeEpoch) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(4), 10));
  int elements = 0;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(-1)) {
    EXPECT_THAT(batch, StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("epoch -1; want >= 0")));
    ++elements;
  }
  EXPECT_EQ(elements, 1);
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(3)));
}

TEST_P(LoaderTest, ByName) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("Numbers", Options(4), int64_t{10}));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(3)));
}

TEST_P(LoaderTest, ConstructorArgumentsTravel) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("Described", Options(), "twelve chars",
                                  std::vector<double>{1.5, 2.5, 3.5}));
  EpochRange epoch = loader->Epoch(0);
  TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
  EXPECT_THAT(batch->data<int64_t>("length"), IsOkAndHolds(ElementsAre(12)));
  EXPECT_THAT(batch->data<double>("values"),
              IsOkAndHolds(ElementsAre(1.5, 2.5, 3.5)));
}

TEST_P(LoaderTest, ErrorsNameTheRank) {
  LoaderOptions options = Options(10);
  options.rank = Rank{.rank = 3, .world_size = 8, .node = "node1"};
  const char* const named = workers() == 0
                                ? "rank 3 on node1: sample 3 (item 3)"
                                : "rank 3 on node1, worker ";
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", options));
    EpochRange epoch = loader->Epoch(0);
    EXPECT_THAT(epoch.Next(Watchdog()),
                StatusIs(StatusCode::kDataLoss,
                         AllOf(StartsWith(named), HasSubstr("is rotten"))));
    loader->Cancel();
    EXPECT_THAT(
        epoch.Next(Watchdog()),
        StatusIs(StatusCode::kCancelled, StartsWith("rank 3 on node1: ")));
  }
  EXPECT_THAT(Loader::Create("NoSuchThing", options),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(StartsWith("rank 3 on node1: "),
                             HasSubstr("no such thing"))));
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Numbers>(options, 0));
    EpochRange epoch = loader->Epoch(0);
    epoch.begin();
    EXPECT_THAT(*epoch.begin(), StatusIs(StatusCode::kFailedPrecondition,
                                         StartsWith("rank 3 on node1: ")));
  }
  options.batch_size = 0;
  EXPECT_THAT(Loader::Create<Numbers>(options, 10),
              StatusIs(StatusCode::kInvalidArgument,
                       StartsWith("rank 3 on node1: Loader::Create(): ")));
}

TEST_P(LoaderTest, DropLastLeavesOutTheShortBatch) {
  LoaderOptions options = Options(4);
  options.drop_last = true;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  EXPECT_EQ(loader->samples(), 8);
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(2)));
}

TEST_P(LoaderTest, MoreWorkersThanBatches) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(2), 2));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(1)));
}

TEST_P(LoaderTest, EmptyDataset) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(), 0));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(IsEmpty()));
  for (const auto& batch : loader->Epoch(1)) FAIL() << batch.status();
}

TEST_P(LoaderTest, BatchesDoNotDependOnTheWorkers) {
  const auto run = [&](int with_workers, const char* dataset) {
    LoaderOptions options = Options(8);
    options.workers = with_workers;
    options.sampler = *RandomSampler::Create(
        {.dataset_size = 103, .samples = 250, .seed = 3});
    auto loader = Loader::Create(dataset, options, int64_t{103});
    std::vector<std::vector<Copy>> epochs;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      epochs.push_back(*RunEpoch(**loader, epoch));
    }
    return epochs;
  };
  const auto with_none = run(0, "Numbers");
  EXPECT_EQ(run(workers(), "Numbers"), with_none);
  EXPECT_EQ(run(workers(), "Bulk"), with_none);
  EXPECT_NE(with_none[0], with_none[1]);
}

TEST_P(LoaderTest, ShuffleIsAnotherOrderInEachEpoch) {
  LoaderOptions options = Options(100);
  options.shuffle = true;
  const auto order = [&](int64_t epoch) {
    auto loader = Loader::Create<Numbers>(options, 100);
    return (*RunEpoch(**loader, epoch))[0].values;
  };
  const std::vector<int64_t> first = order(0);
  EXPECT_EQ(order(0), first);
  EXPECT_NE(order(1), first);
  EXPECT_THAT(std::set<int64_t>(first.begin(), first.end()), SizeIs(100));
  options.seed = 8;
  EXPECT_NE(order(0), first);
}

TEST_P(LoaderTest, ABatchIsAlwaysFromTheSameWorker) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(), 20));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    for (const absl::StatusOr<Batch>& batch : loader->Epoch(epoch)) {
      ASSERT_THAT(batch, IsOk());
      EXPECT_EQ(batch->worker(),
                workers() == 0 ? -1 : batch->number() % workers());
    }
  }
}

TEST_P(LoaderTest, BatchesMayBeKept) {
  std::vector<Batch> kept;
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Numbers>(Options(2), 100));
    for (absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
      ASSERT_THAT(batch, IsOk());
      kept.push_back(*std::move(batch));
    }
  }  // They outlive the loader.
  ASSERT_THAT(kept, SizeIs(50));
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_THAT(kept[i].data<int64_t>("value"),
                IsOkAndHolds(ElementsAre(2 * i, 2 * i + 1)));
  }
}

TEST_P(LoaderTest, ATensorOutlivesBatchAndLoader) {
  Tensor values;
  DLPackTensor lent;
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Numbers>(Options(4), 4));
    EpochRange epoch = loader->Epoch(0);
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
    TENON_ASSERT_OK_AND_ASSIGN(values, batch->tensor("value"));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor noise, batch->tensor("noise"));
    TENON_ASSERT_OK_AND_ASSIGN(lent, ToDLPack(noise));
  }
  EXPECT_THAT(values.data<const int64_t>(),
              IsOkAndHolds(ElementsAre(0, 1, 2, 3)));
  EXPECT_EQ(lent->dl_tensor.ndim, 2);
  EXPECT_EQ(lent->dl_tensor.shape[1], kNoiseSize);
  const auto* noise = static_cast<const float*>(lent->dl_tensor.data);
  EXPECT_EQ(noise[0], static_cast<float>(SampleRandom(7, 0, 0).Uniform()));
}

// A tensor of a batch goes through a queue as a block of its arena: it is not
// copied.
TEST_P(LoaderTest, ATensorGoesThroughAQueueWithoutACopy) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(4), 4));
  EpochRange epoch = loader->Epoch(0);
  TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor noise, batch->tensor("noise"));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle sent, Describe(noise));
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, TensorQueue::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto handle, queue->Share());
  TENON_ASSERT_OK_AND_ASSIGN(auto peer, TensorQueue::Open(std::move(handle)));
  ASSERT_THAT(queue->Put(noise, Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor received,
                             peer->GetTensor(Watchdog()));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle got, Describe(received));
  EXPECT_EQ(got.block, sent.block);
  EXPECT_EQ(*received.data<const float>(), *noise.data<const float>());
}

TEST_P(LoaderTest, WrongElementTypesAreRefused) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(4), 4));
  EpochRange epoch = loader->Epoch(0);
  TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
  // Of the right size.
  EXPECT_THAT(batch->data<double>("value"),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(batch->data<int32_t>("noise"),
              StatusIs(StatusCode::kInvalidArgument));
}

// Of both ranks in turn: the same samples and random numbers as of one process.
TEST_P(LoaderTest, RanksTakeTheBatchesOfOneProcessInTurn) {
  const auto run = [&](const Rank& rank) -> absl::StatusOr<std::vector<Copy>> {
    LoaderOptions options = Options(4);
    options.sampler = *DistributedSampler::Create(
        *RandomSampler::Create({.dataset_size = 24, .seed = 7}), rank,
        {.batch_size = 4});
    TENON_ASSIGN_OR_RETURN(auto loader, Loader::Create<Numbers>(options, 24));
    return RunEpoch(*loader, 3);
  };
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, run({}));
  ASSERT_THAT(whole, SizeIs(6));
  for (int rank = 0; rank < 2; ++rank) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto part,
                               run({.rank = rank, .world_size = 2}));
    ASSERT_THAT(part, SizeIs(3));
    for (size_t i = 0; i < part.size(); ++i) {
      const Copy& same = whole[2 * i + static_cast<size_t>(rank)];
      EXPECT_EQ(part[i].values, same.values);
      EXPECT_EQ(part[i].noise, same.noise);
    }
  }
}

TEST_P(LoaderTest, ASamplerOfRanksHasTheBatchSizeOfTheLoader) {
  LoaderOptions options = Options(4);
  options.sampler = *DistributedSampler::Create(
      *RandomSampler::Create({.dataset_size = 24, .seed = 7}),
      {.rank = 1, .world_size = 2}, {.batch_size = 1});
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 24));
  EXPECT_THAT(
      RunEpoch(*loader, 0),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("give the sampler the loader's batch_size (4)")));
}

TEST_P(LoaderTest, MemoryIsReused) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(100), 50'000));
  std::set<const void*> blocks;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    blocks.insert(batch->data<int64_t>("value")->data());
  }
  // The arena of a worker uses the free blocks of a segment before it looks for
  // released ones: 32 blocks of two pages.
  EXPECT_LE(blocks.size(), static_cast<size_t>(std::max(48 * workers(), 8)));
}

TEST_P(LoaderTest, BatchesMayBeDestroyedInAnotherThread) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(), 200));
  std::vector<std::thread> threads;
  for (absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    threads.emplace_back([kept = *std::move(batch)] {
      EXPECT_THAT(kept.data<int64_t>("value"), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(LoaderTest, AnEpochMayBeAbandoned) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(), 100));
  EpochRange abandoned = loader->Epoch(0);
  ASSERT_THAT(abandoned.Next(Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*loader, 1));
  ASSERT_THAT(batches, SizeIs(100));
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(batches[i].values[0], i);
  EXPECT_THAT(abandoned.Next(), StatusIs(StatusCode::kFailedPrecondition,
                                         HasSubstr("the epoch was abandoned")));
}

TEST_P(LoaderTest, EpochsMayBeAbandonedUnread) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(3), 100));
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    EpochRange range = loader->Epoch(epoch);
    if (epoch % 3 != 0) continue;
    ASSERT_THAT(range.Next(Watchdog()), IsOk());
  }
  EXPECT_THAT(RunEpoch(*loader, 50), IsOkAndHolds(SizeIs(34)));
}

TEST_P(LoaderTest, ALoaderMayBeDroppedInMidEpoch) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(), 1000));
  EpochRange epoch = loader->Epoch(0);
  ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
  const Pids pids(*loader);
  loader.reset();
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderTest, LoadersMayBeInterleaved) {
  LoaderOptions options = Options(5);
  TENON_ASSERT_OK_AND_ASSIGN(auto a, Loader::Create<Numbers>(options, 50));
  options.workers = 2;
  TENON_ASSERT_OK_AND_ASSIGN(auto b, Loader::Create<Numbers>(options, 50));
  EpochRange epoch_a = a->Epoch(0);
  EpochRange epoch_b = b->Epoch(0);
  for (int i = 0; i < 10; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto from_a, epoch_a.Next(Watchdog()));
    TENON_ASSERT_OK_AND_ASSIGN(const auto from_b, epoch_b.Next(Watchdog()));
    EXPECT_EQ(CopyOf(*from_a), CopyOf(*from_b));
    if (i == 7) break;  // Both are dropped in mid-epoch.
  }
}

TEST_P(LoaderTest, SkipsBadSamplesAndSaysWhich) {
  LoaderOptions options = Options(10);
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", options));
  EpochRange epoch = loader->Epoch(0);
  for (int64_t i = 0; i < 10; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(auto batch, epoch.Next(Watchdog()));
    ASSERT_TRUE(batch.has_value());
    const int64_t b = 10 * i;
    EXPECT_THAT(batch->data<int64_t>("value"),
                IsOkAndHolds(ElementsAre(b, b + 1, b + 2, b + 4, b + 5, b + 6,
                                         b + 8, b + 9)));
    ASSERT_THAT(batch->skipped(), SizeIs(2));
    EXPECT_EQ(batch->skipped()[0].index, b + 3);
    EXPECT_EQ(batch->skipped()[0].position, b + 3);
    EXPECT_THAT(batch->skipped()[0].status,
                StatusIs(StatusCode::kDataLoss, HasSubstr("is rotten")));
    EXPECT_THAT(batch->skipped()[1].status,
                StatusIs(StatusCode::kInternal, HasSubstr("item is on fire")));
  }
}

TEST_P(LoaderTest, AWholeBatchMayBeSkipped) {
  LoaderOptions options = Options();
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", options));
  TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*loader, 0));
  ASSERT_THAT(batches, SizeIs(100));
  EXPECT_THAT(batches[2].values, SizeIs(1));
  EXPECT_THAT(batches[3].values, IsEmpty());
}

TEST_P(LoaderTest, ABadSampleIsTheErrorOfItsBatch) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create("Bad", Options(5)));
  std::vector<int64_t> good;
  int errors = 0;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    if (batch.ok()) good.push_back(batch->number());
    if (!batch.ok() && ++errors == 1) {
      EXPECT_THAT(batch,
                  StatusIs(StatusCode::kDataLoss,
                           HasSubstr("sample 3 (item 3): item 3 is rotten")));
    }
  }
  EXPECT_EQ(errors, 20);  // Each batch of 5 has a bad sample,
  EXPECT_THAT(good, IsEmpty());
  TENON_ASSERT_OK_AND_ASSIGN(loader, Loader::Create("Bad", Options(2)));
  EpochRange epoch = loader->Epoch(0);
  EXPECT_THAT(epoch.Next(Watchdog()), IsOk());
  EXPECT_THAT(epoch.Next(Watchdog()), StatusIs(StatusCode::kDataLoss));
  TENON_ASSERT_OK_AND_ASSIGN(const auto third, epoch.Next(Watchdog()));
  EXPECT_EQ(third->number(), 2);  // and the next one comes all the same.
}

TEST_P(LoaderTest, ASampleThatFailsAsTheLoaderMightIsAnErrorOfItsBatch) {
  for (const StatusCode code :
       {StatusCode::kDeadlineExceeded, StatusCode::kCancelled}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create("ItemFailsWith", Options(2), static_cast<int>(code)));
    EpochRange epoch = loader->Epoch(0);
    ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
    EXPECT_THAT(epoch.Next(Watchdog()),
                StatusIs(StatusCode::kInternal,
                         AllOf(HasSubstr(absl::StatusCodeToString(code)),
                               HasSubstr("sample 3 (item 3): item 3 fails"))));
    TENON_ASSERT_OK_AND_ASSIGN(const auto third, epoch.Next(Watchdog()));
    EXPECT_EQ(third->number(), 2);
  }
}

TEST_P(LoaderTest, CancelBefore) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(), 10));
  loader->Cancel();
  EXPECT_THAT(RunEpoch(*loader, 0), StatusIs(StatusCode::kCancelled));
  int elements = 0;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(1)) {
    EXPECT_THAT(batch, StatusIs(StatusCode::kCancelled));
    ++elements;
  }
  EXPECT_EQ(elements, 1);
}

TEST_P(LoaderTest, CancelAfterTheLastBatch) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(4), 4));
  EpochRange epoch = loader->Epoch(0);
  ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
  loader->Cancel();
  EXPECT_THAT(epoch.Next(Watchdog()), StatusIs(StatusCode::kCancelled));
}

TEST_P(LoaderTest, CancelWhileWaiting) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("Sleeps", Options(1000), int64_t{50}));
  const Pids pids(*loader);
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(200));
    loader->Cancel();
  });
  EXPECT_THAT(RunEpoch(*loader, 0), StatusIs(StatusCode::kCancelled));
  other.join();
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderTest, SamplerOutOfRangeIsAnError) {
  class Wrong : public Sampler {
   public:
    int64_t size() const override { return 1; }
    void Fill(int64_t, int64_t, absl::Span<int64_t> to) override { to[0] = 10; }
  };
  LoaderOptions options = Options();
  options.sampler = std::make_shared<Wrong>();
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kOutOfRange, HasSubstr("item 10")));
}

// The index of item 30 is not in the dataset: that is batch 3's.
class OneBadIndex : public SequentialSampler {
 public:
  OneBadIndex() : SequentialSampler(50) {}
  void Fill(int64_t epoch, int64_t first, absl::Span<int64_t> to) override {
    SequentialSampler::Fill(epoch, first, to);
    std::ranges::replace(to, 30, -30);
  }
};

TEST_P(LoaderTest, ABadIndexIsTheErrorOfItsBatchAtItsPlace) {
  const auto run = [&](int with_workers) {
    LoaderOptions options = Options(10);
    options.workers = with_workers;
    options.sampler = std::make_shared<OneBadIndex>();
    auto loader = *Loader::Create<Numbers>(options, 50);
    std::vector<absl::StatusOr<Copy>> elements;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      for (const absl::StatusOr<Batch>& batch : loader->Epoch(epoch)) {
        if (batch.ok()) {
          elements.emplace_back(CopyOf(*batch));
        } else {
          elements.emplace_back(batch.status());
        }
      }
    }
    return elements;
  };
  const auto elements = run(workers());
  ASSERT_THAT(elements, SizeIs(10));
  EXPECT_THAT(elements[2], IsOk());
  EXPECT_THAT(elements[3],
              StatusIs(StatusCode::kOutOfRange, HasSubstr("item -30")));
  EXPECT_THAT(elements[4], IsOk());
  EXPECT_EQ(elements, run(0));
}

// Of so many items, all of them 0.
class Zeros : public Sampler {
 public:
  explicit Zeros(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  void Fill(int64_t, int64_t, absl::Span<int64_t> to) override {
    std::ranges::fill(to, 0);
  }

 private:
  int64_t size_;
};

TEST_P(LoaderTest, AnEpochMayHaveAnyNumberOfSamples) {
  LoaderOptions options = Options(2);
  options.sampler =
      std::make_shared<Zeros>(std::numeric_limits<int64_t>::max());
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Numbers>(options, 10));
  EXPECT_EQ(loader->batches(), int64_t{1} << 62);
  EpochRange epoch = loader->Epoch(0);
  TENON_ASSERT_OK_AND_ASSIGN(const auto batch, epoch.Next(Watchdog()));
  EXPECT_THAT(batch->data<int64_t>("value"), IsOkAndHolds(ElementsAre(0, 0)));
}

TEST_P(LoaderTest, RefusesNegativeSizes) {
  EXPECT_THAT(Loader::Create<Numbers>(Options(), -1),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("size() of the dataset is -1; want >= 0")));
  LoaderOptions options = Options();
  options.sampler = std::make_shared<Zeros>(-1);
  EXPECT_THAT(Loader::Create<Numbers>(options, 10),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("size() of the sampler is -1; want >= 0")));
}

TEST_P(LoaderTest, RefusesBadDatasets) {
  EXPECT_THAT(Loader::Create("Nonsense", Options()),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("Nonsense"), HasSubstr("Numbers"))));
  EXPECT_THAT(Loader::Create("Numbers", Options(), "ten"),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("takes (long), got (std::string)")));
  EXPECT_THAT(Loader::Create("NoSuchThing", Options()),
              StatusIs(StatusCode::kInvalidArgument,
                       "cannot make dataset 'NoSuchThing': no such thing"));
  EXPECT_THAT(Loader::Create("Throws", Options()),
              StatusIs(StatusCode::kInternal, HasSubstr("on fire")));
  EXPECT_THAT(Loader::Create("SizeThrows", Options(), false),
              StatusIs(StatusCode::kInternal,
                       HasSubstr("size() of the dataset threw: no size")));
  EXPECT_THAT(Loader::Create("SpecThrows", Options(), false),
              StatusIs(StatusCode::kInternal,
                       HasSubstr("spec() of the dataset threw: no spec")));
  EXPECT_THAT(Loader::Create<Numbers>(Options(0), 10),
              StatusIs(StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tenon::loader
