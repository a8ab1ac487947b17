// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a loader gives, with any number of workers. What becomes of workers:
// loader_worker_test.cc.

#include "tenon/loader/loader.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderTest,
    ::testing::Combine(::testing::Values(0, 1, 2, 5),
                       ::testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem)),
    LoaderCaseName);

TEST_P(LoaderTest, GivesAllBatchesInOrder) {
  LoaderOptions options = Options("numbers", "10");
  options.batch_size = 4;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  EXPECT_EQ(loader->samples(), 10);
  EXPECT_EQ(loader->batches(), 3);
  TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*loader, 0));
  ASSERT_THAT(batches, SizeIs(3));
  EXPECT_THAT(batches[0].values, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(batches[1].values, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(batches[2].values, ElementsAre(8, 9));
  EXPECT_THAT(batches[2].noise, SizeIs(2 * kNoiseSize));
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(batches[i].number, i);
  EXPECT_THAT(loader->Next(), IsOkAndHolds(::testing::Eq(std::nullopt)));
}

TEST_P(LoaderTest, DropLastLeavesOutTheShortBatch) {
  LoaderOptions options = Options("numbers", "10");
  options.batch_size = 4;
  options.drop_last = true;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  EXPECT_EQ(loader->samples(), 8);
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(2)));
}

TEST_P(LoaderTest, MoreWorkersThanBatches) {
  LoaderOptions options = Options("numbers", "2");
  options.batch_size = 2;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(SizeIs(1)));
}

TEST_P(LoaderTest, EmptyDataset) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create(Options("numbers", "0")));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOkAndHolds(IsEmpty()));
}

TEST_P(LoaderTest, NothingBeforeTheFirstEpoch) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create(Options("numbers", "10")));
  EXPECT_THAT(loader->Next(), IsOkAndHolds(::testing::Eq(std::nullopt)));
}

TEST_P(LoaderTest, BatchesDoNotDependOnTheWorkers) {
  const auto run = [&](int with_workers) {
    LoaderOptions options = Options("numbers", "103");
    options.batch_size = 8;
    options.workers = with_workers;
    auto sampler =
        RandomSampler::Create({.dataset_size = 103, .samples = 250, .seed = 3});
    auto loader = Loader::Create(options, *std::move(sampler));
    std::vector<std::vector<Copy>> epochs;
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      epochs.push_back(*RunEpoch(**loader, epoch));
    }
    return epochs;
  };
  const auto with_none = run(0);
  EXPECT_EQ(run(workers()), with_none);
  EXPECT_NE(with_none[0], with_none[1]);
}

TEST_P(LoaderTest, BatchesMayBeKept) {
  LoaderOptions options = Options("numbers", "100");
  options.batch_size = 2;
  std::vector<Batch> kept;
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
    loader->StartEpoch(0);
    for (;;) {
      TENON_ASSERT_OK_AND_ASSIGN(auto batch, loader->Next(Watchdog()));
      if (!batch) break;
      kept.push_back(*std::move(batch));
    }
  }  // They outlive the loader.
  ASSERT_THAT(kept, SizeIs(50));
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_THAT(kept[i].field<int64_t>(0), ElementsAre(2 * i, 2 * i + 1));
  }
}

TEST_P(LoaderTest, MemoryIsReused) {
  LoaderOptions options = Options("numbers", "1000");
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  std::set<const void*> places;
  loader->StartEpoch(0);
  for (;;) {
    TENON_ASSERT_OK_AND_ASSIGN(auto batch, loader->Next(Watchdog()));
    if (!batch) break;
    places.insert(batch->bytes(0).data());
  }
  // At most all batches of the window, and the one in hand, of each worker.
  EXPECT_LE(places.size(),
            static_cast<size_t>(std::max(workers() * (2 * workers() + 1), 1)));
}

TEST_P(LoaderTest, BatchesMayBeDestroyedInAnotherThread) {
  LoaderOptions options = Options("numbers", "200");
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  loader->StartEpoch(0);
  std::vector<std::thread> threads;
  for (;;) {
    TENON_ASSERT_OK_AND_ASSIGN(auto batch, loader->Next(Watchdog()));
    if (!batch) break;
    threads.emplace_back([kept = *std::move(batch)] { kept.bytes(0); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(LoaderTest, AnEpochMayBeAbandoned) {
  LoaderOptions options = Options("numbers", "100");
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  loader->StartEpoch(0);
  ASSERT_THAT(loader->Next(Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*loader, 1));
  ASSERT_THAT(batches, SizeIs(100));
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(batches[i].values[0], i);
}

TEST_P(LoaderTest, ALoaderMayBeDroppedInMidEpoch) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create(Options("numbers", "1000")));
  loader->StartEpoch(0);
  ASSERT_THAT(loader->Next(Watchdog()), IsOk());
  const Pids pids(*loader);
  loader.reset();
  EXPECT_TRUE(pids.AllEnded());
}

TEST_P(LoaderTest, SkipsBadSamplesAndSaysWhich) {
  LoaderOptions options = Options("bad");
  options.batch_size = 10;
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  loader->StartEpoch(0);
  for (int64_t i = 0; i < 10; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(auto batch, loader->Next(Watchdog()));
    ASSERT_TRUE(batch.has_value());
    const int64_t b = 10 * i;
    EXPECT_THAT(
        batch->field<int64_t>("value"),
        ElementsAre(b, b + 1, b + 2, b + 4, b + 5, b + 6, b + 8, b + 9));
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
  LoaderOptions options = Options("bad");
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*loader, 0));
  ASSERT_THAT(batches, SizeIs(100));
  EXPECT_THAT(batches[2].values, SizeIs(1));
  EXPECT_THAT(batches[3].values, IsEmpty());
}

TEST_P(LoaderTest, ABadSampleEndsTheEpochIfAsked) {
  LoaderOptions options = Options("bad");
  options.batch_size = 5;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
  const Pids pids(*loader);
  const auto epoch = RunEpoch(*loader, 0);
  EXPECT_THAT(epoch,
              StatusIs(StatusCode::kDataLoss,
                       HasSubstr("sample 3 (item 3): item 3 is rotten")));
  EXPECT_TRUE(pids.AllEnded());
  EXPECT_EQ(loader->Next().status(), epoch.status());  // And stays so.
}

TEST_P(LoaderTest, CancelBefore) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create(Options("numbers", "10")));
  loader->Cancel();
  EXPECT_THAT(RunEpoch(*loader, 0), StatusIs(StatusCode::kCancelled));
}

TEST_P(LoaderTest, CancelWhileWaiting) {
  LoaderOptions options = Options("sleeps", "50");
  options.batch_size = 1000;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create(options));
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
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create(Options("numbers", "10"), std::make_unique<Wrong>()));
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kOutOfRange, HasSubstr("item 10")));
}

TEST_P(LoaderTest, RefusesBadOptions) {
  EXPECT_THAT(Loader::Create(Options("nonsense")),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("nonsense"), HasSubstr("numbers"))));
  EXPECT_THAT(Loader::Create(Options("no_factory")),
              StatusIs(StatusCode::kInvalidArgument, "no such thing"));
  EXPECT_THAT(Loader::Create(Options("throwing_factory")),
              StatusIs(StatusCode::kInternal, HasSubstr("on fire")));
  for (auto change : {+[](LoaderOptions& o) { o.batch_size = 0; },
                      +[](LoaderOptions& o) { o.workers = -1; },
                      +[](LoaderOptions& o) { o.prefetch = 0; }}) {
    LoaderOptions options = Options("numbers", "10");
    change(options);
    EXPECT_THAT(Loader::Create(options),
                StatusIs(StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace tenon::loader
