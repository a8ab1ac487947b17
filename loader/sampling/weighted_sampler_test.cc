// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/weighted_sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
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
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(WeightedSamplerTest, DrawsByWeight) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      WeightedSampler::Create(
          {.weights = {0, 1, 3, 0, 4, 2, 0}, .samples = 100'000, .seed = 6}));
  std::vector<int64_t> counts(7);
  for (const int64_t index : EpochOf(*sampler, 0)) ++counts[index];
  EXPECT_EQ(counts[0] + counts[3] + counts[6], 0);
  // Binomial with p = weight / 10: 6 sigma.
  EXPECT_NEAR(counts[1], 10'000, 570);
  EXPECT_NEAR(counts[2], 30'000, 870);
  EXPECT_NEAR(counts[4], 40'000, 930);
  EXPECT_NEAR(counts[5], 20'000, 760);
}

TEST(WeightedSamplerTest, AnyEpochMayComeFirst) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      WeightedSampler::Create({.weights = {1, 2, 3}, .replacement = false}));
  EXPECT_EQ(Sorted(EpochOf(*sampler, -1)), Iota(3));
}

// Two items of five: each pair by its probability, in the order of the draws.
TEST(WeightedSamplerTest, WithoutReplacementEachDrawIsByWeight) {
  const std::vector<double> weights = {1, 2, 3, 4};
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      WeightedSampler::Create(
          {.weights = weights, .samples = 2, .replacement = false}));
  constexpr int kEpochs = 50'000;
  std::vector<int> counts(16);
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<int64_t> drawn = EpochOf(*sampler, epoch);
    ++counts[drawn[0] * 4 + drawn[1]];
  }
  for (size_t i = 0; i < 4; ++i) {
    for (size_t j = 0; j < 4; ++j) {
      const double p =
          i == j ? 0 : weights[i] / 10 * weights[j] / (10 - weights[i]);
      // 6 sigma, at most 6 sqrt(50,000 / 5).
      EXPECT_NEAR(counts[i * 4 + j], p * kEpochs, i == j ? 0 : 560);
    }
  }
}

TEST(WeightedSamplerTest, WithoutReplacementHasEachOnce) {
  std::vector<double> weights(1000, 0.5);
  weights[17] = 0;
  weights[18] = 1e300;
  weights[19] = 1e-300;
  TENON_ASSERT_OK_AND_ASSIGN(auto sampler,
                             WeightedSampler::Create({.weights = weights,
                                                      .samples = 999,
                                                      .replacement = false,
                                                      .seed = 2}));
  std::vector<int64_t> all = Iota(1000);
  all.erase(all.begin() + 17);
  const std::vector<int64_t> epoch = EpochOf(*sampler, 0);
  EXPECT_EQ(Sorted(epoch), all);
  EXPECT_EQ(epoch.front(), 18);
  EXPECT_EQ(epoch.back(), 19);
  EXPECT_NE(EpochOf(*sampler, 1), epoch);
}

TEST(WeightedSamplerTest, DoesNotDependOnHowItIsAsked) {
  for (const bool replacement : {false, true}) {
    const WeightedSamplerOptions options = {.weights = {3, 1, 4, 1, 5, 9, 2, 6},
                                            .samples = 7,
                                            .replacement = replacement,
                                            .seed = 1};
    TENON_ASSERT_OK_AND_ASSIGN(auto whole, WeightedSampler::Create(options));
    TENON_ASSERT_OK_AND_ASSIGN(auto pieces, WeightedSampler::Create(options));
    EXPECT_EQ(EpochBackwards(*pieces, 3), EpochOf(*whole, 3));
    EpochOf(*pieces, 4);
    EXPECT_EQ(EpochOf(*pieces, 3), EpochOf(*whole, 3));
    EXPECT_NE(EpochOf(*pieces, 4), EpochOf(*whole, 3));
  }
}

// Sums that lose small weights beside large ones still draw an item.
TEST(WeightedSamplerTest, WeightsOfAllMagnitudes) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      WeightedSampler::Create(
          {.weights = {1e-300, 1e300, 1e-300, 0}, .samples = 1000}));
  for (const int64_t index : EpochOf(*sampler, 0)) ASSERT_EQ(index, 1);
}

TEST(WeightedSamplerTest, OfNothing) {
  TENON_ASSERT_OK_AND_ASSIGN(auto sampler, WeightedSampler::Create({}));
  EXPECT_THAT(EpochOf(*sampler, 0), IsEmpty());
}

TEST(WeightedSamplerTest, RefusesWhatCannotBeDrawn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(WeightedSampler::Create({.weights = {1, -0.5}}),
              StatusIs(StatusCode::kInvalidArgument,
                       "WeightedSampler::Create(): weight 1 is -0.5; weights "
                       "are finite and at least 0"));
  EXPECT_THAT(WeightedSampler::Create({.weights = {nan}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("is nan")));
  EXPECT_THAT(WeightedSampler::Create({.weights = {infinity}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("is inf")));
  EXPECT_THAT(
      WeightedSampler::Create({.weights = {1.5e308, 1.5e308}}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("up to infinity")));
  EXPECT_THAT(WeightedSampler::Create({.weights = {1}, .samples = -1}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("-1 samples")));
  EXPECT_THAT(WeightedSampler::Create({.weights = {0, 0}}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("none of 2 weights is positive")));
  EXPECT_THAT(
      WeightedSampler::Create({.weights = {1, 0, 2}, .replacement = false}),
      StatusIs(StatusCode::kInvalidArgument,
               "WeightedSampler::Create(): cannot draw 3 samples "
               "without replacement: 2 of 3 weights are positive; set "
               "`samples` or `replacement`"));
}

}  // namespace
}  // namespace tenon::loader
