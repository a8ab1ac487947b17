// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/ledger/range_allocator.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tenon {
namespace {

using Range = std::pair<uint64_t, uint64_t>;

// The first of `count` consecutive free numbers, by linear search.
std::optional<uint64_t> FirstFit(const std::vector<bool>& used,
                                 uint64_t count) {
  uint64_t row = 0;
  for (uint64_t i = 0; i < used.size(); ++i) {
    row = used[i] ? 0 : row + 1;
    if (row == count) return i + 1 - count;
  }
  return std::nullopt;
}

TEST(RangeAllocatorTest, GivesAllAndNoMore) {
  RangeAllocator allocator(10);
  EXPECT_EQ(allocator.Allocate(11), std::nullopt);
  EXPECT_EQ(allocator.Allocate(10), 0u);
  EXPECT_EQ(allocator.Allocate(1), std::nullopt);
  allocator.Free(0, 10);
  EXPECT_EQ(allocator.Allocate(10), 0u);
}

TEST(RangeAllocatorTest, NeighboursJoinOnBothSides) {
  RangeAllocator allocator(30);
  for (uint64_t first : {0, 10, 20}) EXPECT_EQ(allocator.Allocate(10), first);
  allocator.Free(0, 10);
  allocator.Free(20, 10);
  EXPECT_EQ(allocator.Allocate(11), std::nullopt);
  allocator.Free(10, 10);
  EXPECT_EQ(allocator.Allocate(30), 0u);
}

TEST(RangeAllocatorTest, NothingIsGivenTwice) {
  constexpr uint64_t kSize = 200;
  RangeAllocator allocator(kSize);
  std::vector<bool> used(kSize);
  std::vector<Range> given;
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    if (given.empty() || random() % 2 == 0) {
      const uint64_t count = 1 + random() % 30;
      const auto first = allocator.Allocate(count);
      ASSERT_EQ(first, FirstFit(used, count));
      if (!first) continue;
      std::fill_n(used.begin() + static_cast<ptrdiff_t>(*first), count, true);
      given.emplace_back(*first, count);
    } else {
      std::swap(given[random() % given.size()], given.back());
      const auto [first, count] = given.back();
      given.pop_back();
      allocator.Free(first, count);
      std::fill_n(used.begin() + static_cast<ptrdiff_t>(first), count, false);
    }
  }
}

}  // namespace
}  // namespace tenon
