// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/stats_memory.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/stats/stats_board.h"
#include "tenon/loader/stats/stats_layout.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/segment/control_memory.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ParsedStats Read(const StatsMemory& memory) {
  return *ParseStats(CopyStatsWords(memory.data(), memory.size_bytes()));
}

TEST(StatsMemoryTest, AReaderSeesWhatTheMeterWrites) {
  TENON_ASSERT_OK_AND_ASSIGN(const StatsMemory memory,
                             StatsMemory::Create({.loader = {1, 2},
                                                  .worker = 3,
                                                  .dataset = "Photos",
                                                  .workers = 4,
                                                  .prefetch = 2,
                                                  .batch_size = 64,
                                                  .in_order = false,
                                                  .cores = 8,
                                                  .events = 3}));
  TENON_ASSERT_OK_AND_ASSIGN(const StatsView view,
                             StatsView::Adopt(memory.fd()));
  StageMeter meter = memory.meter();
  meter.SetBatch(5, 70);
  meter.EnterTimed(Stage::kWait);
  meter.EnterTimed(Stage::kLoad);
  meter.Done(64);
  EXPECT_EQ(view.stage(), Stage::kLoad);
  EXPECT_EQ(view.batches(), 1u);
  TENON_ASSERT_OK_AND_ASSIGN(
      const ParsedStats parsed,
      ParseStats(CopyStatsWords(view.data(), view.size_bytes())));
  EXPECT_EQ(parsed.info.events, 4);
  EXPECT_FALSE(parsed.info.in_order);
  EXPECT_EQ(parsed.process.dataset, "Photos");
  EXPECT_EQ(parsed.process.worker, 3);
  EXPECT_EQ(parsed.process.samples, 64u);
  EXPECT_EQ(parsed.process.since_ns, view.since_ns());
  EXPECT_EQ(parsed.process.of(Stage::kWait).count(), 1u);
  ASSERT_EQ(parsed.process.events.size(), 1u);
  EXPECT_EQ(parsed.process.events[0].stage, Stage::kWait);
  EXPECT_EQ(parsed.process.events[0].epoch, 5);
  EXPECT_EQ(parsed.process.events[0].batch, 70);
}

TEST(StatsMemoryTest, OnlyTheLastEventsAreKept) {
  TENON_ASSERT_OK_AND_ASSIGN(const StatsMemory memory,
                             StatsMemory::Create({.events = 8}));
  StageMeter meter = memory.meter();
  for (int64_t i = 0; i < 100; ++i) {
    meter.SetBatch(0, i);
    meter.EnterTimed(i % 2 == 0 ? Stage::kWait : Stage::kTake);
  }
  std::vector<int64_t> batches;
  // One may be overwritten already.
  for (const StageEvent& event : Read(memory).process.events) {
    batches.push_back(event.batch);
  }
  EXPECT_THAT(batches, ElementsAre(93, 94, 95, 96, 97, 98, 99));
}

TEST(StatsMemoryTest, WithoutRoomForEventsThereAreNone) {
  TENON_ASSERT_OK_AND_ASSIGN(const StatsMemory memory, StatsMemory::Create({}));
  StageMeter meter = memory.meter();
  for (int i = 0; i < 3; ++i) meter.EnterTimed(static_cast<Stage>(1 + i));
  EXPECT_THAT(Read(memory).process.events, IsEmpty());
  EXPECT_EQ(Read(memory).process.of(Stage::kWait).count(), 1u);
}

TEST(StatsMemoryTest, LongNamesAreCut) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const StatsMemory memory,
      StatsMemory::Create({.dataset = std::string(100, 'x')}));
  EXPECT_EQ(Read(memory).process.dataset, std::string(64, 'x'));
}

TEST(StatsMemoryTest, OtherMemoryIsRefused) {
  TENON_ASSERT_OK_AND_ASSIGN(const ControlMemory small,
                             ControlMemory::Create(4096, "tenon.loader"));
  EXPECT_THAT(StatsView::Adopt(small.fd()),
              StatusIs(StatusCode::kDataLoss, HasSubstr("want at least")));
  TENON_ASSERT_OK_AND_ASSIGN(const ControlMemory zero,
                             ControlMemory::Create(size_t{1} << 16, "x"));
  EXPECT_THAT(StatsView::Adopt(zero.fd()),
              StatusIs(StatusCode::kDataLoss, HasSubstr("bad magic 0x0")));
  EXPECT_THAT(ParseStats({}), StatusIs(StatusCode::kDataLoss));
}

TEST(StatsMemoryTest, AHostileWriterHarmsOnlyItsOwnFigures) {
  TENON_ASSERT_OK_AND_ASSIGN(const StatsMemory memory,
                             StatsMemory::Create({.events = 4}));
  const std::vector<uint64_t> good =
      CopyStatsWords(memory.data(), memory.size_bytes());
  for (size_t word = 1; word < good.size(); ++word) {
    for (const uint64_t value : {UINT64_MAX, uint64_t{1} << 63, uint64_t{3}}) {
      std::vector<uint64_t> bad = good;
      bad[word] = value;
      const absl::StatusOr<ParsedStats> parsed = ParseStats(bad);
      if (!parsed.ok()) {
        EXPECT_THAT(parsed, StatusIs(StatusCode::kDataLoss));
        continue;
      }
      EXPECT_LE(parsed->process.events.size(), 4u);
      JoinStats(*parsed, {*parsed}, 0);
    }
  }
}

TEST(StatsMemoryTest, NoSumOrDifferenceOfWhatAWriterSaysOverflows) {
  TENON_ASSERT_OK_AND_ASSIGN(const StatsMemory memory, StatsMemory::Create({}));
  const std::vector<uint64_t> good =
      CopyStatsWords(memory.data(), memory.size_bytes());
  for (const uint64_t value : {UINT64_MAX, uint64_t{1} << 63}) {
    std::vector<uint64_t> bad(good.size(), value);
    bad[StatsWord::kMagic] = StatsWord::kMagicValue;
    bad[StatsWord::kEvents] = 0;
    TENON_ASSERT_OK_AND_ASSIGN(const ParsedStats parsed, ParseStats(bad));
    const ProcessStats& process = parsed.process;
    EXPECT_GE(process.since_ns, 0);
    EXPECT_GE(process.started_ns, 0);
    for (size_t s = 0; s < kStages; ++s) {
      const TimeHistogram& times = process.stages[s];
      uint64_t seen = 0;
      for (const uint64_t bucket : times.buckets) {
        EXPECT_GE(seen + bucket, seen);
        seen += bucket;
      }
      EXPECT_EQ(times.count(), seen);
      EXPECT_GE(process.TotalNs(), times.total_ns);
      EXPECT_LE(process.ShareOf(static_cast<Stage>(s)), 1.0);
    }
  }
}

TEST(StatsMemoryTest, OfALargeMemoryNoMoreIsCopiedThanItSaysItHas) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const ControlMemory large,
      ControlMemory::Create(size_t{1} << 30, kWorkerStatsLabel));
  auto* const words = reinterpret_cast<uint64_t*>(large.data());
  words[StatsWord::kMagic] = StatsWord::kMagicValue;
  words[StatsWord::kEvents] = 4;
  TENON_ASSERT_OK_AND_ASSIGN(const StatsView view,
                             StatsView::Adopt(large.fd()));
  EXPECT_EQ(CopyStatsWords(view.data(), view.size_bytes()).size(),
            StatsWords(4) + 1);
}

TEST(StatsBoardTest, WorkersHaveTheNumbersThatTheBoardGaveThem) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto board,
                             StatsBoard::Create({.workers = 2}));
  // Hostile ones: of another loader, with the number of the other or of none.
  for (const int number : {1, 0}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const StatsMemory memory,
        StatsMemory::Create({.loader = {9, 9}, .worker = number - 1}));
    TENON_ASSERT_OK_AND_ASSIGN(StatsView view, StatsView::Adopt(memory.fd()));
    board->SetWorker(number, std::move(view));
  }
  const LoaderStats stats = board->Stats();
  ASSERT_EQ(stats.workers.size(), 2u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(stats.workers[static_cast<size_t>(i)].worker, i);
    EXPECT_EQ(stats.workers[static_cast<size_t>(i)].loader,
              stats.consumer.loader);
  }
}

TEST(StatsBoardTest, AWorkerThatReplacesAnotherBeginsAtZero) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto board,
                             StatsBoard::Create({.workers = 1}));
  for (uint64_t batches = 5; batches >= 2; --batches) {
    TENON_ASSERT_OK_AND_ASSIGN(const StatsMemory memory,
                               StatsMemory::Create({.worker = 0}));
    TENON_ASSERT_OK_AND_ASSIGN(StatsView view, StatsView::Adopt(memory.fd()));
    board->SetWorker(0, std::move(view));
    for (uint64_t i = 0; i < batches; ++i) memory.meter().Done(8);
    board->meter().SetTaken(0, batches - 1);
    const LoaderStats stats = board->Stats();
    ASSERT_EQ(stats.workers.size(), 1u);
    EXPECT_EQ(stats.workers[0].batches, batches);
    EXPECT_THAT(stats.ready_now, ElementsAre(1u));
  }
}

TEST(LoaderStatsTest, SinceIsWhatWasAdded) {
  TENON_ASSERT_OK_AND_ASSIGN(const StatsMemory memory,
                             StatsMemory::Create({.workers = 1}));
  TENON_ASSERT_OK_AND_ASSIGN(const StatsMemory worker,
                             StatsMemory::Create({.worker = 0}));
  StageMeter meter = memory.meter();
  StageMeter worker_meter = worker.meter();
  const auto stats = [&] { return JoinStats(Read(memory), {Read(worker)}, 0); };
  worker_meter.Done(8);
  meter.AddReady(2);
  const LoaderStats before = stats();
  EXPECT_THAT(before.ready_now, ElementsAre(1u));
  worker_meter.Done(8);
  worker_meter.Done(4);
  meter.SetTaken(0, 2);
  meter.AddReady(1);
  meter.EnterTimed(Stage::kUse);
  meter.Pause();
  const LoaderStats added = stats().Since(before);
  EXPECT_EQ(added.workers[0].batches, 2u);
  EXPECT_EQ(added.workers[0].samples, 12u);
  EXPECT_EQ(added.consumer.of(Stage::kUse).count(), 1u);
  EXPECT_EQ(added.ready, 1.0);
  EXPECT_THAT(added.ready_now, ElementsAre(1u));
}

TEST(LoaderStatsTest, SinceFindsAWorkerBesideOthersThatHaveEnded) {
  LoaderStats before;
  for (int i = 0; i < 3; ++i) {
    ProcessStats worker;
    worker.worker = i;
    worker.started_ns = 100 + i;
    worker.batches = 1000;
    before.workers.push_back(worker);
  }
  LoaderStats now = before;
  now.workers.erase(now.workers.begin());
  now.workers[0].batches += 7;
  // Another process in the place of the last one.
  now.workers[1].started_ns = 500;
  now.workers[1].batches = 3;
  const LoaderStats added = now.Since(before);
  EXPECT_EQ(added.workers[0].batches, 7u);
  EXPECT_EQ(added.workers[1].batches, 3u);
}

}  // namespace
}  // namespace tenon::loader
