// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/random_sampler.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/sampling/sampling_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(RandomSamplerTest, AnEpochIsAPermutation) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler, RandomSampler::Create({.dataset_size = 1000, .seed = 1}));
  const std::vector<int64_t> all = Iota(1000);
  const auto first = EpochOf(*sampler, 0);
  EXPECT_EQ(Sorted(first), all);
  EXPECT_NE(first, all);
  const auto second = EpochOf(*sampler, 1);
  EXPECT_EQ(Sorted(second), all);
  EXPECT_NE(second, first);
}

TEST(RandomSamplerTest, EveryPermutationIsAsLikelyAsAnother) {
  TENON_ASSERT_OK_AND_ASSIGN(auto sampler,
                             RandomSampler::Create({.dataset_size = 3}));
  std::vector<int> histogram(27);
  constexpr int kEpochs = 60'000;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = EpochOf(*sampler, epoch);
    ++histogram[static_cast<size_t>(9 * order[0] + 3 * order[1] + order[2])];
  }
  int seen = 0;
  for (const int count : histogram) {
    if (count == 0) continue;
    ++seen;
    EXPECT_NEAR(count, kEpochs / 6, 550);  // 6 sigma.
  }
  EXPECT_EQ(seen, 6);
}

TEST(RandomSamplerTest, MoreSamplesThanItemsUsesEachEquallyOften) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      RandomSampler::Create({.dataset_size = 7, .samples = 7 * 13 + 3}));
  std::vector<int> histogram(7);
  for (const int64_t index : EpochOf(*sampler, 0)) ++histogram[index];
  EXPECT_THAT(histogram, Each(::testing::AnyOf(13, 14)));
}

TEST(RandomSamplerTest, FewerSamplesThanItems) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler, RandomSampler::Create({.dataset_size = 100, .samples = 9}));
  auto sorted = Sorted(EpochOf(*sampler, 0));
  ASSERT_EQ(sorted.size(), 9u);
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
}

TEST(RandomSamplerTest, WithReplacementItemsRepeat) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      RandomSampler::Create({.dataset_size = 100, .replacement = true}));
  auto sorted = Sorted(EpochOf(*sampler, 0));
  EXPECT_NE(std::unique(sorted.begin(), sorted.end()), sorted.end());
  EXPECT_GE(sorted.front(), 0);
  EXPECT_LT(sorted.back(), 100);
}

// Asked in pieces and in any order, it gives the same. The larger sets are
// those without a table.
TEST(RandomSamplerTest, DoesNotDependOnHowItIsAsked) {
  const int64_t large = RandomSampler::kTableSize + 1;
  for (const RandomSamplerOptions& options :
       {RandomSamplerOptions{.dataset_size = 10, .samples = 35, .seed = 9},
        RandomSamplerOptions{
            .dataset_size = 10, .samples = 35, .replacement = true, .seed = 9},
        RandomSamplerOptions{
            .dataset_size = large, .samples = large + 100, .seed = 9}}) {
    TENON_ASSERT_OK_AND_ASSIGN(auto whole, RandomSampler::Create(options));
    TENON_ASSERT_OK_AND_ASSIGN(auto pieces, RandomSampler::Create(options));
    EXPECT_EQ(EpochBackwards(*pieces, 4), EpochOf(*whole, 4));
    // Another epoch in between changes nothing.
    EpochOf(*pieces, 5);
    EXPECT_EQ(EpochOf(*pieces, 4), EpochOf(*whole, 4));
  }
}

// On both sides of the size from which there is no table.
TEST(RandomSamplerTest, AnEpochOfALargeSetIsAPermutation) {
  for (const int64_t size :
       {RandomSampler::kTableSize, RandomSampler::kTableSize + 1}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto sampler,
        RandomSampler::Create(
            {.dataset_size = size, .samples = 2 * size, .seed = 1}));
    const std::vector<int64_t> first = EpochOf(*sampler, 0);
    const std::vector<int64_t> second = EpochOf(*sampler, 1);
    const auto middle = first.begin() + size;
    const std::vector<int64_t> round(first.begin(), middle);
    const std::vector<int64_t> next(middle, first.end());
    EXPECT_EQ(Sorted(round), Iota(size));
    EXPECT_EQ(Sorted(next), Iota(size));
    EXPECT_NE(round, next);
    EXPECT_NE(first, second);
  }
}

TEST(RandomSamplerTest, OfAsManyItemsAsThereAreNumbers) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler, RandomSampler::Create({.dataset_size = INT64_MAX}));
  std::vector<int64_t> indices(1000);
  sampler->Fill(0, INT64_MAX - 1000, absl::MakeSpan(indices));
  const std::vector<int64_t> sorted = Sorted(indices);
  EXPECT_GE(sorted.front(), 0);
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
}

// torch's test_random_sampler: how often items repeat, by how many are drawn.
TEST(RandomSamplerTest, ItemsRepeatAsOftenAsTheyMust) {
  constexpr int64_t kItems = 100;
  const auto repeated = [](int64_t samples, bool replacement) {
    std::map<int64_t, int> times;
    auto sampler = *RandomSampler::Create({.dataset_size = kItems,
                                           .samples = samples,
                                           .replacement = replacement});
    for (const int64_t index : EpochOf(*sampler, 0)) ++times[index];
    return std::count_if(times.begin(), times.end(),
                         [](const auto& item) { return item.second > 1; });
  };
  EXPECT_GT(repeated(kItems + 1, true), 0);
  EXPECT_EQ(repeated(kItems - 1, false), 0);
  EXPECT_EQ(repeated(kItems, false), 0);
  EXPECT_EQ(repeated(kItems + 1, false), 1);
  EXPECT_EQ(repeated(2 * kItems, false), kItems);
}

TEST(RandomSamplerTest, ResumesAnywhere) {
  for (const int64_t size : {int64_t{10}, RandomSampler::kTableSize + 1}) {
    const RandomSamplerOptions options = {.dataset_size = size, .seed = 3};
    TENON_ASSERT_OK_AND_ASSIGN(auto before, RandomSampler::Create(options));
    const std::vector<int64_t> epoch = EpochOf(*before, 2);
    TENON_ASSERT_OK_AND_ASSIGN(auto after, RandomSampler::Create(options));
    std::vector<int64_t> rest(static_cast<size_t>(size - 3));
    after->Fill(2, 3, absl::MakeSpan(rest));
    EXPECT_EQ(rest, std::vector<int64_t>(epoch.begin() + 3, epoch.end()));
  }
}

TEST(RandomSamplerTest, WithReplacementEachItemIsAsLikely) {
  TENON_ASSERT_OK_AND_ASSIGN(auto sampler,
                             RandomSampler::Create({.dataset_size = 50,
                                                    .samples = 100'000,
                                                    .replacement = true,
                                                    .seed = 4}));
  std::vector<int64_t> counts(50);
  for (const int64_t index : EpochOf(*sampler, 0)) ++counts[index];
  EXPECT_LT(ChiSquare(counts), ChiSquareBound(counts.size()));
}

// Epochs must stay what they are from version to version.
TEST(RandomSamplerTest, GoldenOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler, RandomSampler::Create({.dataset_size = 8, .seed = 42}));
  EXPECT_THAT(EpochOf(*sampler, 0), ElementsAre(5, 3, 7, 4, 1, 0, 2, 6));
}

TEST(RandomSamplerTest, RefusesWhatCannotBeDrawn) {
  EXPECT_THAT(RandomSampler::Create({.dataset_size = -1}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(RandomSampler::Create({.dataset_size = 1, .samples = -1}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(RandomSampler::Create({.dataset_size = 0, .samples = 1}),
              StatusIs(StatusCode::kInvalidArgument,
                       "RandomSampler::Create(): cannot draw 1 samples from an "
                       "empty dataset"));
  EXPECT_THAT(RandomSampler::Create({.dataset_size = 0}), IsOk());
}

}  // namespace
}  // namespace tenon::loader
