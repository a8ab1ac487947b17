// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/size_class.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace tenon {
namespace {

constexpr size_t kLargest = size_t{1} << 47;

void CheckFits(size_t bytes) {
  const size_t block = BlockBytesFor(bytes);
  ASSERT_GE(block, bytes);
  ASSERT_EQ(block % kBlockAlignment, 0u) << bytes;
  if (bytes >= kPageBytes) {
    ASSERT_EQ(block % kPageBytes, 0u) << bytes;
  }
  // A block of a class's size fits its class.
  ASSERT_EQ(BlockBytesFor(block), block) << bytes;
  ASSERT_LT(SizeClassOf(block), kSizeClasses) << bytes;
  // The bound in the header.
  const size_t waste = block - bytes;
  const size_t step =
      bytes > kPageBytes - kPageBytes / 8 ? kPageBytes : kBlockAlignment;
  ASSERT_TRUE(waste < step || waste * 5 < block)
      << bytes << " in a block of " << block;
  if (bytes > 256 && (bytes <= 4096 || bytes > 16384)) {
    ASSERT_LT(waste * 5, block) << bytes;
  }
}

// Sizes next to each power of two, and to the quarters between them.
std::vector<size_t> Corners() {
  std::vector<size_t> sizes;
  for (size_t power = 64; power <= kLargest; power *= 2) {
    for (size_t quarter = 4; quarter < 8; ++quarter) {
      const size_t at = power / 4 * quarter;
      for (const size_t size : {at - 1, at, at + 1}) {
        if (size <= kLargest) sizes.push_back(size);
      }
    }
  }
  return sizes;
}

TEST(SizeClassTest, EverySizeUpToAMebibyteFits) {
  for (size_t bytes = 1; bytes <= size_t{1} << 20; ++bytes) {
    CheckFits(bytes);
    if (HasFatalFailure()) return;
  }
}

TEST(SizeClassTest, SizesAtThePowersOfTwoFit) {
  for (const size_t bytes : Corners()) {
    CheckFits(bytes);
    if (HasFatalFailure()) return;
  }
}

TEST(SizeClassTest, LargerSizesHaveNoSmallerBlocksNorClasses) {
  std::vector<size_t> sizes = Corners();
  for (size_t bytes = 0; bytes <= 100'000; ++bytes) sizes.push_back(bytes);
  std::sort(sizes.begin(), sizes.end());
  size_t block_before = 0;
  size_t class_before = 0;
  for (const size_t bytes : sizes) {
    const size_t block = BlockBytesFor(bytes);
    ASSERT_GE(block, block_before) << bytes;
    // Another block has another class, and a higher one.
    const size_t size_class = SizeClassOf(block);
    if (block == block_before) {
      ASSERT_EQ(size_class, class_before) << bytes;
    } else if (block_before != 0) {
      ASSERT_GT(size_class, class_before) << bytes;
    }
    block_before = block;
    class_before = size_class;
  }
  EXPECT_EQ(class_before, kSizeClasses - 1);
}

TEST(SizeClassTest, SizesForAnAlignmentAreMultiplesOfItAndSizesOfBlocks) {
  for (const size_t alignment : {64, 256, 512, 4096}) {
    for (size_t bytes = 0; bytes <= 20'000; ++bytes) {
      const size_t block = BlockBytesFor(bytes, alignment);
      ASSERT_EQ(block % alignment, 0u) << bytes;
      ASSERT_GE(block, BlockBytesFor(bytes)) << bytes;
      ASSERT_LE(block, BlockBytesFor(bytes) + alignment) << bytes;
      ASSERT_EQ(BlockBytesFor(block), block) << bytes;
    }
  }
  EXPECT_EQ(BlockBytesFor(SIZE_MAX, 256), 0u);
}

TEST(SizeClassTest, NoBytesAreABlockOfTheSmallestSize) {
  EXPECT_EQ(BlockBytesFor(0), kBlockAlignment);
  EXPECT_EQ(SizeClassOf(kBlockAlignment), 0u);
}

TEST(SizeClassTest, BeyondTheLargestThereIsNoBlock) {
  EXPECT_EQ(BlockBytesFor(kLargest), kLargest);
  EXPECT_EQ(BlockBytesFor(kLargest + 1), 0u);
  EXPECT_EQ(BlockBytesFor(SIZE_MAX), 0u);
}

}  // namespace
}  // namespace tenon
