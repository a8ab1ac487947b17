// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Where a loader's time goes: constructed situations, each with the stage that
// is slow, and what the report says of it.

#include "tenon/loader/stats/loader_stats.h"

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/data/worker_kind.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_state.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/stats/loader_report.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Sleeps in one of the places in which a dataset works.
class Laggard : public Dataset {
 public:
  Laggard(int64_t get_ms, int64_t collate_ms, int64_t slow_worker)
      : get_ms_(get_ms), collate_ms_(collate_ms), slow_worker_(slow_worker) {}
  int64_t size() const override { return 200; }
  SampleSpec spec() const override {
    if (collate_ms_ == 0) return SampleSpec().Add<int64_t>("value");
    return SampleSpec().Add<int64_t>("value").AddText("text").AddOutput<float>(
        "made");
  }
  absl::Status Collate(Collation& batch) override {
    absl::SleepFor(absl::Milliseconds(collate_ms_));
    return batch.Create("made", {1}).status();
  }
  absl::Status Get(int64_t index, SampleRandom&, Sample& sample) override {
    const auto worker = GetWorkerInfo();
    const bool is_slow = worker && worker->index == slow_worker_;
    absl::SleepFor(absl::Milliseconds(is_slow ? 10 * get_ms_ : get_ms_));
    if (collate_ms_ != 0) {
      TENON_RETURN_IF_ERROR(sample.SetText("text", "abc"));
    }
    return sample.Set("value", index);
  }

 private:
  int64_t get_ms_, collate_ms_, slow_worker_;
};
TENON_LOADER_DATASET(Laggard(int64_t, int64_t, int64_t));

// Some batches, each used for so long.
void Take(Loader& loader, int64_t epoch, int batches, absl::Duration use) {
  EpochRange range = loader.Epoch(epoch);
  for (int i = 0; i < batches; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(auto batch, range.Next(Watchdog()));
    ASSERT_TRUE(batch.has_value());
    absl::SleepFor(use);
  }
}

class LoaderStatsTest : public LoaderTest {};

TEST_P(LoaderStatsTest, BatchesAndSamplesAreExact) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(8), int64_t{100}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
  ASSERT_EQ(batches.size(), 13u);
  const LoaderStats stats = loader->Stats();
  EXPECT_EQ(stats.consumer.batches, 13u);
  EXPECT_EQ(stats.consumer.samples, 100u);
  EXPECT_EQ(stats.consumer.pid, getpid());
  EXPECT_EQ(stats.consumer.dataset, "Numbers");
  EXPECT_EQ(stats.workers_configured, workers());
  ASSERT_EQ(stats.workers.size(), static_cast<size_t>(workers()));
  uint64_t samples = 0;
  for (const ProcessStats& worker : stats.workers) {
    EXPECT_EQ(worker.loader, stats.consumer.loader);
    samples += worker.samples;
    EXPECT_GT(worker.of(Stage::kLoad).count(), 0u);
  }
  // A worker may not have counted its last batch yet.
  if (workers() > 0) {
    EXPECT_GE(samples + 8 * static_cast<uint64_t>(workers()), 100u);
  }
}

TEST_P(LoaderStatsTest, MetricsAndTraceAreOfThisLoader) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(8), int64_t{100}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 3));
  EXPECT_THAT(loader->Metrics(),
              HasSubstr("dataset=\"Numbers\",worker=\"consumer\"} 13\n"));
  // A line is an event; that the whole is JSON is tested without a loader.
  const std::string trace = loader->Trace();
  int loads = 0;
  for (const absl::string_view event : absl::StrSplit(trace, '\n')) {
    if (!absl::StrContains(event, "\"name\": \"load\"")) continue;
    ++loads;
    EXPECT_THAT(std::string(event),
                ContainsRegex("\"epoch\": 3, \"batch\": ([0-9]|1[0-2])[}]"));
  }
  EXPECT_GT(loads, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderStatsTest,
    ::testing::Combine(::testing::Values(0, 2),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);
INSTANTIATE_TEST_SUITE_P(
    Threads, LoaderStatsTest,
    ::testing::Combine(::testing::Values(2),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kThread)),
    LoaderCaseName);

class LoaderReportTest : public ::testing::TestWithParam<WorkerKind> {
 protected:
  LoaderOptions Options() const {
    return {.batch_size = 4, .workers = 2, .worker_kind = GetParam()};
  }
};

TEST_P(LoaderReportTest, ASlowDatasetIsTheLoadersLoad) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Laggard>(Options(), int64_t{5}, int64_t{0}, int64_t{-1}));
  Take(*loader, 0, 20, absl::ZeroDuration());
  const LoaderReport report = loader->Report();
  EXPECT_EQ(report.bottleneck, Bottleneck::kLoader) << report.ToText();
  EXPECT_EQ(report.slowest, Stage::kLoad);
  EXPECT_GT(report.waiting, 0.5);
  EXPECT_THAT(report.advice, Contains(HasSubstr("Get() cheaper")))
      << report.ToText();
  for (const ProcessStats& worker : report.stats.workers) {
    EXPECT_GE(worker.of(Stage::kLoad).MeanNs(), 20e6 * 0.5);
  }
}

TEST_P(LoaderReportTest, ASlowConsumerIsTheBottleneck) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Numbers>(Options(), int64_t{200}));
  LoaderReport report;
  // Beside other programs a worker may be late for once.
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    const LoaderStats before = loader->Stats();
    Take(*loader, epoch, 15, absl::Milliseconds(20));
    report = MakeReport(loader->Stats().Since(before));
    if (report.bottleneck == Bottleneck::kConsumer) break;
  }
  EXPECT_EQ(report.bottleneck, Bottleneck::kConsumer) << report.ToText();
  EXPECT_THAT(report.advice,
              ElementsAre(HasSubstr("fewer workers would do: 1")));
  EXPECT_GT(report.stats.ready, 0.5);
}

TEST_P(LoaderReportTest, SlowCollationIsNamed) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Laggard>(Options(), int64_t{1}, int64_t{20}, int64_t{-1}));
  Take(*loader, 0, 20, absl::ZeroDuration());
  const LoaderReport report = loader->Report();
  EXPECT_EQ(report.bottleneck, Bottleneck::kLoader) << report.ToText();
  EXPECT_EQ(report.slowest, Stage::kCollate) << report.ToText();
  EXPECT_THAT(report.advice, Contains(HasSubstr("make collation cheaper")));
}

TEST_P(LoaderReportTest, OneSlowWorkerIsNamed) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Laggard>(Options(), int64_t{2}, int64_t{0}, int64_t{1}));
  Take(*loader, 0, 20, absl::ZeroDuration());
  const LoaderReport report = loader->Report();
  EXPECT_EQ(report.bottleneck, Bottleneck::kLoader) << report.ToText();
  EXPECT_THAT(report.slow_workers, ElementsAre(1)) << report.ToText();
  EXPECT_THAT(report.advice, Contains(AllOf(HasSubstr("look at worker 1"),
                                            HasSubstr("in_order = false"))));
}

INSTANTIATE_TEST_SUITE_P(Kinds, LoaderReportTest,
                         ::testing::Values(WorkerKind::kProcess,
                                           WorkerKind::kThread),
                         [](const auto& test) {
                           return test.param == WorkerKind::kThread
                                      ? "threads"
                                      : "processes";
                         });

TEST(LoaderReportLocalTest, WithoutWorkersTheConsumerMakesTheBatches) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Laggard>({.batch_size = 4}, int64_t{2},
                                           int64_t{0}, int64_t{-1}));
  Take(*loader, 0, 10, absl::ZeroDuration());
  const LoaderReport report = loader->Report();
  EXPECT_EQ(report.bottleneck, Bottleneck::kLoader) << report.ToText();
  EXPECT_THAT(report.advice, Contains(HasSubstr("use workers: ")));
}

TEST(LoaderReplayTest, TheFirstBatchesAreReturnedAgain) {
  for (const int workers : {0, 2}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader,
        Loader::Create<Numbers>({.batch_size = 20,
                                 .workers = workers,
                                 .worker_kind = WorkerKind::kThread,
                                 .replay = 2},
                                int64_t{100}));
    TENON_ASSERT_OK_AND_ASSIGN(const auto first, RunEpoch(*loader, 0));
    EXPECT_THAT(NumbersOf(first), ElementsAre(0, 1, 0, 1, 0));
    EXPECT_EQ(first[2], first[0]);
    // The workers finish what they had been assigned.
    const int64_t most = SamplesMade() + int64_t{20} * 2 * workers;
    for (int64_t epoch = 1; epoch < 50; ++epoch) {
      TENON_ASSERT_OK_AND_ASSIGN(const auto again, RunEpoch(*loader, epoch));
      ASSERT_EQ(NumbersOf(again), (std::vector<int64_t>{0, 1, 0, 1, 0}));
      ASSERT_EQ(again[4], first[0]);
    }
    EXPECT_LE(SamplesMade(), most);
    EXPECT_THAT(loader->warnings(), Contains(HasSubstr("replay")));
  }
}

TEST(LoaderReplayTest, HasNoState) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Numbers>({.batch_size = 50, .replay = 1}, int64_t{100}));
  TENON_ASSERT_OK_AND_ASSIGN(
      auto other, Loader::Create<Numbers>({.batch_size = 50}, int64_t{100}));
  TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, other->State());
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
  EXPECT_THAT(loader->State(), StatusIs(StatusCode::kFailedPrecondition,
                                        StartsWith("Loader::State(): with "
                                                   "LoaderOptions::replay ")));
  EXPECT_THAT(loader->Load(state), StatusIs(StatusCode::kFailedPrecondition,
                                            StartsWith("Loader::Load(): ")));
  // Nothing has changed.
  TENON_ASSERT_OK_AND_ASSIGN(const auto again, RunEpoch(*loader, 1));
  EXPECT_THAT(NumbersOf(again), ElementsAre(0, 0));
}

TEST(LoaderReplayTest, WorkersThatWereReplacedAreReported) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Numbers>({.batch_size = 10,
                                            .workers = 1,
                                            .recycle_after_samples = 20,
                                            .replay = 8},
                                           int64_t{100}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, 0));
  EXPECT_GE(loader->replaced_workers(), 1);
  const LoaderStats stats = loader->Stats();
  ASSERT_EQ(stats.workers.size(), 1u);
  // Those of the last process alone.
  EXPECT_LE(stats.workers[0].samples, 40u);
  EXPECT_EQ(stats.consumer.samples, 100u);
}

TEST(LoaderReplayTest, AnEpochThatWasBegunAheadIsReplayedToo) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create<Numbers>({.batch_size = 20,
                                            .workers = 2,
                                            .worker_kind = WorkerKind::kThread,
                                            .prefetch = 4,
                                            .overlap_epochs = true,
                                            .replay = 7},
                                           int64_t{100}));
  TENON_ASSERT_OK_AND_ASSIGN(auto batches, RunEpoch(*loader, 0));
  EXPECT_THAT(NumbersOf(batches), ElementsAre(0, 1, 2, 3, 4));
  for (int64_t epoch = 1; epoch < 20; ++epoch) {
    TENON_ASSERT_OK_AND_ASSIGN(batches, RunEpoch(*loader, epoch));
    EXPECT_THAT(NumbersOf(batches), ElementsAre(0, 1, 2, 3, 4));
  }
}

TEST(LoaderReplayTest, AShortEpochIsKeptWhole) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Numbers>({.batch_size = 50, .replay = 10}, int64_t{100}));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, epoch));
    EXPECT_THAT(NumbersOf(batches), ElementsAre(0, 1));
  }
}

TEST(LoaderReplayTest, OfAStreamThereAreAsManyAsAreKept) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader,
      Loader::Create<Streams>({.batch_size = 5, .workers = 1, .replay = 3},
                              std::vector<int64_t>{100}));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batches, RunEpoch(*loader, epoch));
    EXPECT_THAT(NumbersOf(batches), ElementsAre(0, 1, 2));
  }
}

TEST(LoaderStatsOfTheDeadTest, WhatAWorkerDidOutlivesIt) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("Dies", {.workers = 1}));
  EXPECT_THAT(RunEpoch(*loader, 0), StatusIs(StatusCode::kAborted));
  const LoaderStats stats = loader->Stats();
  ASSERT_EQ(stats.workers.size(), 1u);
  // Item 42 killed it while it was loading.
  EXPECT_EQ(stats.workers[0].batches, 42u);
  EXPECT_EQ(stats.workers[0].stage, Stage::kLoad);
  EXPECT_EQ(stats.workers[0].batch, 42);
}

}  // namespace
}  // namespace tenon::loader
