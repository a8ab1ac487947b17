// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/subset_sampler.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/sampling/sampling_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SubsetSamplerTest, IsInTheOrderOfItsList) {
  TENON_ASSERT_OK_AND_ASSIGN(auto sampler, SubsetSampler::Create({7, 3, 3, 9}));
  EXPECT_THAT(EpochOf(*sampler, 0), ElementsAre(7, 3, 3, 9));
  EXPECT_THAT(EpochBackwards(*sampler, 1), ElementsAre(7, 3, 3, 9));
}

TEST(SubsetSamplerTest, OfNothing) {
  TENON_ASSERT_OK_AND_ASSIGN(auto sampler, SubsetSampler::Create({}));
  EXPECT_THAT(EpochOf(*sampler, 0), IsEmpty());
}

TEST(SubsetSamplerTest, AtRandomHasEachOnce) {
  std::vector<int64_t> evens;
  for (int64_t i = 0; i < 200; i += 2) evens.push_back(i);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto order, RandomSampler::Create({.dataset_size = 100, .seed = 5}));
  TENON_ASSERT_OK_AND_ASSIGN(auto sampler,
                             SubsetSampler::Create(evens, std::move(order)));
  const std::vector<int64_t> first = EpochOf(*sampler, 0);
  EXPECT_EQ(Sorted(first), evens);
  EXPECT_NE(first, evens);
  EXPECT_NE(EpochOf(*sampler, 1), first);
  EXPECT_EQ(EpochBackwards(*sampler, 0), first);
}

TEST(SubsetSamplerTest, KeepsThePositionsOfASlice) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto order,
      DistributedSampler::Create(std::make_unique<SequentialSampler>(4),
                                 Rank{.rank = 1, .world_size = 2}));
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler, SubsetSampler::Create({10, 11, 12, 13}, std::move(order)));
  EXPECT_THAT(EpochOf(*sampler, 0), ElementsAre(11, 13));
  EXPECT_EQ(sampler->GlobalPosition(1), 3);
}

// An index that no dataset has, which a loader refuses.
TEST(SubsetSamplerTest, AnOrderBeyondTheList) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      SubsetSampler::Create({5, 6}, std::make_unique<SequentialSampler>(3)));
  EXPECT_THAT(EpochOf(*sampler, 0), ElementsAre(5, 6, -1));
}

TEST(SubsetSamplerTest, RefusesNegativeIndices) {
  EXPECT_THAT(SubsetSampler::Create({3, -1}),
              StatusIs(StatusCode::kInvalidArgument,
                       "SubsetSampler::Create(): index 1 of the subset is -1; "
                       "it must be at least 0"));
}

}  // namespace
}  // namespace tenon::loader
