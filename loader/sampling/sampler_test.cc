// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/sampler.h"

#include <cstdint>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/sampling/sampling_testing.h"

namespace tenon::loader {
namespace {

TEST(SequentialSamplerTest, IsInOrderInEachEpoch) {
  SequentialSampler sampler(10);
  EXPECT_EQ(sampler.size(), 10);
  for (int64_t epoch : {0, 1, 7}) {
    EXPECT_EQ(EpochOf(sampler, epoch), Iota(10));
    EXPECT_EQ(EpochBackwards(sampler, epoch), Iota(10));
  }
  EXPECT_EQ(sampler.GlobalPosition(4), 4);
}

TEST(SequentialSamplerTest, OfNothing) {
  SequentialSampler sampler(0);
  EXPECT_THAT(EpochOf(sampler, 0), ::testing::IsEmpty());
}

}  // namespace
}  // namespace tenon::loader
