// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/keyed_permutation.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/sampling_testing.h"

namespace tenon::loader {
namespace {

using ::testing::ElementsAre;

KeyedPermutation Keyed(int64_t size, int64_t key) {
  return KeyedPermutation(size, SampleRandom(99, 0, key));
}

std::vector<int64_t> Values(const KeyedPermutation& permutation,
                            int64_t count) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(permutation.At(i));
  return values;
}

TEST(KeyedPermutationTest, HasEachValueOnce) {
  for (int64_t size = 1; size <= 400; ++size) {
    ASSERT_EQ(Sorted(Values(Keyed(size, size), size)), Iota(size)) << size;
  }
  // Squares and their neighbours, powers of two, primes.
  for (const int64_t size :
       {65'535, 65'536, 65'537, 89'999, 90'000, 90'001, 1'299'709}) {
    ASSERT_EQ(Sorted(Values(Keyed(size, 1), size)), Iota(size)) << size;
  }
}

// Some positions of sets that no test can walk through.
TEST(KeyedPermutationTest, OfHugeSets) {
  for (const int64_t size : {int64_t{1} << 32, (int64_t{1} << 40) + 1,
                             (int64_t{1} << 62) - 1, INT64_MAX}) {
    const KeyedPermutation permutation = Keyed(size, 3);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < 5000; ++i) {
      for (const int64_t position : {i, size / 2 + i, size - 1 - i}) {
        const int64_t value = permutation.At(position);
        ASSERT_GE(value, 0);
        ASSERT_LT(value, size);
        ASSERT_TRUE(seen.insert(value).second) << size << " " << position;
      }
    }
  }
}

TEST(KeyedPermutationTest, IsAnotherOneForAnotherKey) {
  EXPECT_EQ(Values(Keyed(1000, 1), 1000), Values(Keyed(1000, 1), 1000));
  EXPECT_NE(Values(Keyed(1000, 1), 1000), Values(Keyed(1000, 2), 1000));
}

// The order of epochs must stay the same from version to version.
TEST(KeyedPermutationTest, GoldenOrder) {
  EXPECT_THAT(Values(Keyed(1'281'167, 42), 6),
              ElementsAre(971845, 129702, 633599, 688293, 452160, 507222));
}

// Where one item goes, over many keys.
TEST(KeyedPermutationTest, EachValueIsAsLikelyAtAPosition) {
  constexpr int64_t kSize = 300;
  constexpr int kKeys = 30'000;
  std::vector<std::vector<int64_t>> at(3, std::vector<int64_t>(kSize));
  for (int key = 0; key < kKeys; ++key) {
    const KeyedPermutation permutation = Keyed(kSize, key);
    ++at[0][permutation.At(0)];
    ++at[1][permutation.At(151)];
    ++at[2][permutation.At(kSize - 1)];
  }
  for (const std::vector<int64_t>& counts : at) {
    EXPECT_LT(ChiSquare(counts), ChiSquareBound(kSize));
  }
}

// Neighbours in the order, by their difference: a lattice would show.
TEST(KeyedPermutationTest, NeighboursAreIndependent) {
  constexpr int64_t kSize = 300;
  std::vector<int64_t> differences(kSize - 1);
  std::vector<int64_t> second(kSize - 1);
  for (int key = 0; key < 3000; ++key) {
    const std::vector<int64_t> order = Values(Keyed(kSize, key), kSize);
    for (size_t i = 1; i < order.size(); ++i) {
      ++differences[(order[i] - order[i - 1] + kSize) % kSize - 1];
      if (i > 1) ++second[(order[i] - order[i - 2] + kSize) % kSize - 1];
    }
  }
  EXPECT_LT(ChiSquare(differences), ChiSquareBound(kSize - 1));
  EXPECT_LT(ChiSquare(second), ChiSquareBound(kSize - 1));
}

// Of a random permutation: one item stays in its place on average, and half of
// all neighbours ascend.
TEST(KeyedPermutationTest, CountsOfARandomPermutation) {
  constexpr int64_t kSize = 301;
  constexpr int kKeys = 10'000;
  int64_t fixed = 0;
  int64_t ascents = 0;
  for (int key = 0; key < kKeys; ++key) {
    const std::vector<int64_t> order = Values(Keyed(kSize, key), kSize);
    for (int64_t i = 0; i < kSize; ++i) {
      if (order[i] == i) ++fixed;
      if (i > 0 && order[i] > order[i - 1]) ++ascents;
    }
  }
  // Poisson with mean and variance 1 a key: 6 sigma of 100.
  EXPECT_NEAR(fixed, kKeys, 600);
  // Mean (n - 1) / 2, variance (n + 1) / 12 a key: 6 sigma of 502.
  EXPECT_NEAR(ascents, kKeys * (kSize - 1) / 2, 3012);
}

// In a large set: the first items come from everywhere, and so do their
// distances.
TEST(KeyedPermutationTest, ABatchOfALargeSetIsSpreadOut) {
  constexpr int64_t kSize = 1'281'167;
  constexpr int64_t kCells = 64;
  std::vector<int64_t> cells(kCells * kCells);
  for (int key = 0; key < 50; ++key) {
    const std::vector<int64_t> batch = Values(Keyed(kSize, key), 4096);
    for (size_t i = 1; i < batch.size(); ++i) {
      const int64_t cell = batch[i] * kCells / kSize;
      const int64_t before = batch[i - 1] * kCells / kSize;
      ++cells[before * kCells + cell];
    }
  }
  EXPECT_LT(ChiSquare(cells), ChiSquareBound(cells.size()));
}

}  // namespace
}  // namespace tenon::loader
