// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/stage_meter.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stats_layout.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/time_histogram.h"

namespace tenon::loader {
namespace {

int64_t now_ns = 0;
int64_t looks = 0;
int64_t FakeClock() {
  ++looks;
  return now_ns;
}

class StageMeterTest : public ::testing::Test {
 protected:
  StageMeterTest()
      : words_(std::make_unique<SharedWord<uint64_t>[]>(StatsWords(0))),
        meter_(words_.get(), 0, &FakeClock) {
    now_ns = 1'000'000'000;
    looks = 0;
  }

  uint64_t Word(size_t word) const { return *words_[word].address(); }
  uint64_t Total(Stage stage) const { return TimesOf(stage).total_ns; }
  uint64_t Count(Stage stage) const { return TimesOf(stage).count(); }
  TimeHistogram TimesOf(Stage stage) const {
    return reinterpret_cast<const TimeWords*>(&words_[StageWordOf(stage)])
        ->Read();
  }
  // A batch of `load` ns, and so much more.
  void RunBatch(int64_t load, int64_t queue) {
    meter_.Begin(Stage::kQueue);
    now_ns += queue;
    meter_.Enter(Stage::kLoad);
    now_ns += load;
    meter_.Enter(Stage::kQueue);
    meter_.Done(4);
  }

  std::unique_ptr<SharedWord<uint64_t>[]> words_;
  StageMeter meter_;
};

TEST_F(StageMeterTest, SlowBatchesAreMeasuredEach) {
  for (int i = 0; i < 100; ++i) RunBatch(1'000'000, 1000);
  meter_.Pause();
  EXPECT_EQ(Count(Stage::kLoad), 100u);
  EXPECT_EQ(Total(Stage::kLoad), 100'000'000u);
  EXPECT_EQ(Total(Stage::kQueue), 100'000u);
  EXPECT_EQ(Word(StatsWord::kBatches), 100u);
  EXPECT_EQ(Word(StatsWord::kSamples), 400u);
  EXPECT_EQ(TimesOf(Stage::kLoad).buckets[TimeHistogram::BucketOf(1'000'000)],
            100u);
}

TEST_F(StageMeterTest, APauseIsShownAsUseAndCountsForNothing) {
  meter_.Begin(Stage::kTake);
  meter_.EnterTimed(Stage::kWait);
  now_ns += 1000;
  meter_.Pause();
  EXPECT_EQ(Word(StatsWord::kStage), static_cast<uint64_t>(Stage::kUse));
  EXPECT_EQ(Word(StatsWord::kSinceNs), static_cast<uint64_t>(now_ns));
  now_ns += 3'600'000'000'000;
  meter_.Begin(Stage::kTake);
  EXPECT_EQ(Total(Stage::kWait), 1000u);
  EXPECT_EQ(Total(Stage::kUse), 0u);
}

TEST_F(StageMeterTest, OfFastBatchesFewAreMeasuredAndStandForAll) {
  constexpr int kBatches = 200'000;
  for (int i = 0; i < kBatches; ++i) RunBatch(800, 200);
  // 4 looks for a measured batch; one in each 200 us.
  EXPECT_LT(looks, kBatches / 200 * 4 * 2);
  EXPECT_GT(looks, kBatches / 200 * 4 / 2);
  EXPECT_EQ(Word(StatsWord::kBatches), uint64_t{kBatches});
  EXPECT_NEAR(static_cast<double>(Count(Stage::kLoad)), kBatches, 300);
  EXPECT_NEAR(static_cast<double>(Total(Stage::kLoad)), kBatches * 800.0,
              300 * 800.0);
}

TEST_F(StageMeterTest, BatchesThatTakeTurnsAreNotMistakenForOneAnother) {
  constexpr int kBatches = 400'000;
  for (int i = 0; i < kBatches; ++i) RunBatch(i % 2 == 0 ? 100 : 1900, 0);
  EXPECT_NEAR(static_cast<double>(Total(Stage::kLoad)) / kBatches, 1000, 100);
}

TEST_F(StageMeterTest, SlowBatchesAmongFastOnesAreNotOverlooked) {
  constexpr int kBatches = 1'000'000;
  for (int i = 0; i < kBatches; ++i) RunBatch(i % 100 == 99 ? 40'000 : 800, 0);
  const double total = kBatches * (0.99 * 800 + 0.01 * 40'000);
  EXPECT_NEAR(static_cast<double>(Total(Stage::kLoad)) / total, 1, 0.15);
}

TEST_F(StageMeterTest, WaitsThatSleepAreMeasuredInEveryBatch) {
  constexpr int kBatches = 10'000;
  for (int i = 0; i < kBatches; ++i) {
    RunBatch(800, 200);
    if (i % 10 != 0) continue;
    meter_.EnterTimed(Stage::kWait);
    now_ns += 5000;
    meter_.Enter(Stage::kQueue);
  }
  EXPECT_EQ(Count(Stage::kWait), uint64_t{kBatches} / 10);
  EXPECT_EQ(Total(Stage::kWait), uint64_t{kBatches} / 10 * 5000);
}

TEST_F(StageMeterTest, TheStageAndItsBeginningAreShown) {
  RunBatch(800, 200);
  meter_.Begin(Stage::kQueue);
  meter_.SetBatch(3, 17);
  now_ns += 10;
  meter_.Enter(Stage::kLoad);
  EXPECT_EQ(Word(StatsWord::kStage), static_cast<uint64_t>(Stage::kLoad));
  EXPECT_EQ(Word(StatsWord::kSinceNs), static_cast<uint64_t>(now_ns));
  EXPECT_EQ(Word(StatsWord::kEpoch), 3u);
  EXPECT_EQ(Word(StatsWord::kBatch), 17u);
}

TEST_F(StageMeterTest, APauseIsOfNoStage) {
  RunBatch(800, 200);
  meter_.Pause();
  now_ns += 1'000'000'000;
  RunBatch(800, 200);
  meter_.Pause();
  EXPECT_EQ(Total(Stage::kLoad), 1600u);
  EXPECT_EQ(Total(Stage::kQueue), 400u);
}

TEST(StageMeterWithoutMemoryTest, MeasuresNothing) {
  StageMeter meter;
  meter.Begin(Stage::kQueue);
  meter.EnterTimed(Stage::kWait);
  meter.Enter(Stage::kLoad);
  meter.Done(1);
  meter.Pause();
  EXPECT_FALSE(meter.measured());
}

}  // namespace
}  // namespace tenon::loader
