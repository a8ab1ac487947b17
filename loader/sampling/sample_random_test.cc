// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/sample_random.h"

#include <Random123/philox.h>

#include <array>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "absl/random/distributions.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/sampling/sampling_testing.h"

namespace tenon::loader {
namespace {

using ::testing::ElementsAre;

std::vector<uint32_t> Draw(SampleRandom random, int count) {
  std::vector<uint32_t> words;
  for (int i = 0; i < count; ++i) words.push_back(random());
  return words;
}

// The known answers of Philox4x32-10 that are published with the Random123
// library (kat_vectors), by the library as it is compiled here.
TEST(SampleRandomTest, KnownAnswersOfTheGenerator) {
  const auto philox = [](r123::Philox4x32::ctr_type counter,
                         r123::Philox4x32::key_type key) {
    const auto words = r123::Philox4x32()(counter, key);
    return std::vector<uint32_t>(words.begin(), words.end());
  };
  EXPECT_THAT(philox({{0, 0, 0, 0}}, {{0, 0}}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  EXPECT_THAT(philox({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
                     {{0xffffffff, 0xffffffff}}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                     {{0xa4093822, 0x299f31d0}}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

// The words are those of the generator with the documented key and counter.
TEST(SampleRandomTest, IsPhiloxOfItsArguments) {
  const uint64_t seed = 0x0123'4567'89ab'cdef;
  const int64_t epoch = 0x7654'3210;
  const int64_t position = 0x0fed'cba9'8765'4321;
  SampleRandom random(seed, epoch, position);
  for (uint32_t block = 0; block < 3; ++block) {
    const auto words =
        r123::Philox4x32()({{block, 0x7654'3210, 0x8765'4321, 0x0fed'cba9}},
                           {{0x89ab'cdef, 0x0123'4567}});
    for (const uint32_t word : words) EXPECT_EQ(random(), word);
  }
}

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

// What they return must stay the same from version to version.
TEST(SampleRandomTest, KnownAnswersOfItsDistributions) {
  SampleRandom random(42, 1, 7);
  const uint64_t bits = SampleRandom(42, 1, 7).Bits64();
  const std::vector<uint32_t> words = Draw(random, 2);
  EXPECT_EQ(bits, uint64_t{words[0]} << 32 | words[1]);
  EXPECT_EQ(SampleRandom(42, 1, 7).Uniform(),
            static_cast<double>(bits >> 11) / 9007199254740992.0);
  EXPECT_EQ(SampleRandom(42, 1, 7).UniformInt(1000), bits % 1000);
}

TEST(SampleRandomTest, ServesTheDistributionsOfAbseil) {
  SampleRandom random(1, 2, 3);
  std::vector<int64_t> counts(21);
  for (int i = 0; i < 42'000; ++i) {
    ++counts[absl::Uniform(absl::IntervalClosed, random, -10, 10) + 10];
  }
  EXPECT_LT(ChiSquare(counts), ChiSquareBound(counts.size()));
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) sum += absl::Gaussian<double>(random);
  EXPECT_NEAR(sum, 0, 600);  // 6 sigma.
  // Equal engines give equal results.
  SampleRandom one(5, 6, 7);
  SampleRandom other(5, 6, 7);
  EXPECT_EQ(absl::Uniform(one, 0.0, 1.0), absl::Uniform(other, 0.0, 1.0));
}

// Samples draw few numbers each, so it is these that have to be independent.
TEST(SampleRandomTest, FirstDrawsOfNeighboursAreIndependent) {
  std::vector<int64_t> positions(256);
  std::vector<int64_t> epochs(256);
  std::vector<int64_t> seeds(256);
  for (int i = 0; i < 65'536; ++i) {
    const auto pair = [](SampleRandom x, SampleRandom y) {
      return (x() >> 28) << 4 | y() >> 28;
    };
    ++positions[pair(SampleRandom(1, 2, i), SampleRandom(1, 2, i + 1))];
    ++epochs[pair(SampleRandom(1, i, 3), SampleRandom(1, i + 1, 3))];
    const auto seed = static_cast<uint64_t>(i);
    ++seeds[pair(SampleRandom(seed, 2, 3), SampleRandom(seed + 1, 2, 3))];
  }
  EXPECT_LT(ChiSquare(positions), ChiSquareBound(256));
  EXPECT_LT(ChiSquare(epochs), ChiSquareBound(256));
  EXPECT_LT(ChiSquare(seeds), ChiSquareBound(256));
}

}  // namespace
}  // namespace tenon::loader
