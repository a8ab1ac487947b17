// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/random_sampler.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::Each;
using ::testing::ElementsAre;

std::vector<int64_t> Epoch(Sampler& sampler, int64_t epoch) {
  std::vector<int64_t> indices(static_cast<size_t>(sampler.size()));
  sampler.Fill(epoch, 0, absl::MakeSpan(indices));
  return indices;
}

std::vector<int64_t> Sorted(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

TEST(RandomSamplerTest, AnEpochIsAPermutation) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler, RandomSampler::Create({.dataset_size = 1000, .seed = 1}));
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  const auto first = Epoch(*sampler, 0);
  EXPECT_EQ(Sorted(first), all);
  EXPECT_NE(first, all);
  const auto second = Epoch(*sampler, 1);
  EXPECT_EQ(Sorted(second), all);
  EXPECT_NE(second, first);
}

TEST(RandomSamplerTest, EveryPermutationIsAsLikelyAsAnother) {
  TENON_ASSERT_OK_AND_ASSIGN(auto sampler,
                             RandomSampler::Create({.dataset_size = 3}));
  std::vector<int> histogram(27);
  constexpr int kEpochs = 60'000;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const auto order = Epoch(*sampler, epoch);
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
  for (const int64_t index : Epoch(*sampler, 0)) ++histogram[index];
  EXPECT_THAT(histogram, Each(::testing::AnyOf(13, 14)));
}

TEST(RandomSamplerTest, FewerSamplesThanItems) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler, RandomSampler::Create({.dataset_size = 100, .samples = 9}));
  auto sorted = Sorted(Epoch(*sampler, 0));
  ASSERT_EQ(sorted.size(), 9u);
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end());
}

TEST(RandomSamplerTest, WithReplacementItemsRepeat) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      RandomSampler::Create({.dataset_size = 100, .replacement = true}));
  auto sorted = Sorted(Epoch(*sampler, 0));
  EXPECT_NE(std::unique(sorted.begin(), sorted.end()), sorted.end());
  EXPECT_GE(sorted.front(), 0);
  EXPECT_LT(sorted.back(), 100);
}

// Asked in pieces and in any order, it gives the same.
TEST(RandomSamplerTest, DoesNotDependOnHowItIsAsked) {
  for (const bool replacement : {false, true}) {
    const RandomSamplerOptions options = {.dataset_size = 10,
                                          .samples = 35,
                                          .replacement = replacement,
                                          .seed = 9};
    TENON_ASSERT_OK_AND_ASSIGN(auto whole, RandomSampler::Create(options));
    TENON_ASSERT_OK_AND_ASSIGN(auto pieces, RandomSampler::Create(options));
    const auto want = Epoch(*whole, 4);
    for (int64_t position = 34; position >= 0; --position) {
      int64_t index = -1;
      pieces->Fill(4, position, {&index, 1});
      EXPECT_EQ(index, want[static_cast<size_t>(position)]);
    }
  }
}

// Epochs must stay what they are from version to version.
TEST(RandomSamplerTest, GoldenOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler, RandomSampler::Create({.dataset_size = 8, .seed = 42}));
  EXPECT_THAT(Epoch(*sampler, 0), ElementsAre(5, 3, 7, 4, 1, 0, 2, 6));
}

TEST(RandomSamplerTest, RefusesWhatCannotBeDrawn) {
  EXPECT_THAT(RandomSampler::Create({.dataset_size = -1}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(RandomSampler::Create({.dataset_size = 1, .samples = -1}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(RandomSampler::Create({.dataset_size = 0, .samples = 1}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(RandomSampler::Create({.dataset_size = 0}), IsOk());
}

}  // namespace
}  // namespace tenon::loader
