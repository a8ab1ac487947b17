// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/sample_random.h"

#include <array>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tenon::loader {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> Draw(SampleRandom random, int count) {
  std::vector<uint32_t> words;
  for (int i = 0; i < count; ++i) words.push_back(random());
  return words;
}

// The known answer for key 0, counter 0 of Philox4x32-10, as published with the
// Random123 library (kat_vectors).
TEST(SampleRandomTest, KnownAnswer) {
  EXPECT_THAT(Draw(SampleRandom(0, 0, 0), 4),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
}

TEST(SampleRandomTest, EachOfSeedEpochAndPositionMakesAnotherStream) {
  std::set<std::vector<uint32_t>> streams;
  int count = 0;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (int64_t epoch : {0, 1, 2}) {
      for (int64_t position : {int64_t{0}, int64_t{1}, int64_t{1} << 32,
                               std::numeric_limits<int64_t>::min()}) {
        streams.insert(Draw(SampleRandom(seed, epoch, position), 8));
        ++count;
      }
    }
  }
  EXPECT_EQ(streams.size(), static_cast<size_t>(count));
}

TEST(SampleRandomTest, SameArgumentsSameStream) {
  EXPECT_EQ(Draw(SampleRandom(5, 6, 7), 100), Draw(SampleRandom(5, 6, 7), 100));
}

TEST(SampleRandomTest, ACopyGoesOnFromWhereItWasCopied) {
  SampleRandom random(1, 2, 3);
  random();
  const SampleRandom copy = random;
  EXPECT_EQ(Draw(random, 10), Draw(copy, 10));
}

TEST(SampleRandomTest, UniformLiesInItsRangeAndIsUniform) {
  SampleRandom random(1, 2, 3);
  std::array<int, 10> histogram = {};
  constexpr int kDraws = 100'000;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.Uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++histogram[static_cast<size_t>(u * 10)];
  }
  // Binomial with sigma 95: 6 sigma.
  for (const int count : histogram) EXPECT_NEAR(count, kDraws / 10, 570);
}

TEST(SampleRandomTest, UniformIntCoversItsRangeEvenly) {
  SampleRandom random(1, 2, 3);
  std::array<int, 7> histogram = {};
  constexpr int kDraws = 70'000;
  for (int i = 0; i < kDraws; ++i) ++histogram[random.UniformInt(7)];
  for (const int count : histogram) EXPECT_NEAR(count, kDraws / 7, 560);
  EXPECT_EQ(random.UniformInt(1), 0u);
}

TEST(SampleRandomTest, UniformIntOfHugeBounds) {
  SampleRandom random(1, 2, 3);
  constexpr uint64_t kBound = (uint64_t{1} << 63) + 1;  // Rejects almost half.
  bool beyond_half = false;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t draw = random.UniformInt(kBound);
    ASSERT_LT(draw, kBound);
    beyond_half |= draw > kBound / 2;
  }
  EXPECT_TRUE(beyond_half);
}

}  // namespace
}  // namespace tenon::loader
