// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/time_histogram.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace tenon {
namespace {

TEST(TimeHistogramTest, QuantilesAreBoundsOfBuckets) {
  TimeHistogram times;
  EXPECT_EQ(times.QuantileNs(0.5), 0u);
  EXPECT_EQ(times.MeanNs(), 0);
  times.buckets[TimeHistogram::BucketOf(1000)] = 99;
  times.buckets[TimeHistogram::BucketOf(1'000'000)] = 1;
  times.total_ns = 99 * 1000 + 1'000'000;
  times.longest_ns = 1'000'000;
  EXPECT_EQ(times.QuantileNs(0.5), 1024u);
  EXPECT_EQ(times.QuantileNs(0.99), 1024u);
  EXPECT_EQ(times.QuantileNs(1), 1'000'000u);
  EXPECT_EQ(times.count(), 100u);
  EXPECT_EQ(TimeHistogram::BucketOf(0), 0u);
  EXPECT_EQ(TimeHistogram::BucketOf(1), 1u);
  EXPECT_EQ(TimeHistogram::BucketOf(1024), 11u);
  EXPECT_EQ(TimeHistogram::BucketOf(UINT64_MAX), TimeHistogram::kBuckets - 1);
}

TEST(TimeWordsTest, AReaderSeesWhatWasAdded) {
  const auto words = std::make_unique<TimeWords>();
  EXPECT_EQ(words->Read().count(), 0u);
  words->Add(1000);
  const TimeHistogram before = words->Read();
  words->Add(3000, 2);
  const TimeHistogram now = words->Read();
  EXPECT_EQ(now.count(), 3u);
  EXPECT_EQ(now.total_ns, 7000u);
  EXPECT_EQ(now.longest_ns, 3000u);
  EXPECT_EQ(now.buckets[TimeHistogram::BucketOf(3000)], 2u);
  const TimeHistogram added = now.Since(before);
  EXPECT_EQ(added.count(), 2u);
  EXPECT_EQ(added.total_ns, 6000u);
  // Never less than nothing, whatever a writer does.
  EXPECT_EQ(before.Since(now).count(), 0u);
  EXPECT_EQ(before.Since(now).total_ns, 0u);
}

TEST(TimeWordsTest, SumsOfWildWordsDoNotOverflow) {
  const std::vector<uint64_t> wild(TimeWords::kWords, ~uint64_t{0});
  const TimeHistogram times = TimeHistogram::FromWords(wild);
  EXPECT_GE(times.count(), times.buckets[0]);
  EXPECT_GE(times.total_ns + times.total_ns, times.total_ns);
  EXPECT_GT(times.MeanNs(), 0);
  EXPECT_EQ(TimeHistogram::FromWords({}).count(), 0u);
}

}  // namespace
}  // namespace tenon
