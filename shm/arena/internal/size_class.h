// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The sizes of an arena's blocks: four for each doubling, all of them multiples
// of 64 bytes, from one page on multiples of the page. So less than a fifth of
// a block is unused, or less than 64 bytes (of up to 256) or less than a page
// (of up to four: half of a block at worst).

#ifndef TENON_SHM_ARENA_INTERNAL_SIZE_CLASS_H_
#define TENON_SHM_ARENA_INTERNAL_SIZE_CLASS_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tenon {

inline constexpr size_t kBlockAlignment = 64;
// Blocks of this size and more begin at a page.
inline constexpr size_t kPageBytes = 4096;

inline constexpr size_t kLargestBlock = size_t{1} << 47;

// The smallest size of a block that fits `bytes`, or 0 if they exceed
// kLargestBlock.
constexpr size_t BlockBytesFor(size_t bytes) {
  if (bytes > kLargestBlock) return 0;
  if (bytes <= kBlockAlignment) return kBlockAlignment;
  // `step` is a quarter of the power of two below; classes are its multiples.
  size_t step = std::bit_floor(bytes - 1) / 4;
  const size_t least =
      bytes > kPageBytes - kPageBytes / 8 ? kPageBytes : kBlockAlignment;
  if (step < least) step = least;
  return (bytes + step - 1) / step * step;
}

// The same with a size that is a multiple of `alignment`, a power of two: so
// are those of all blocks of that size, from their segment.
constexpr size_t BlockBytesFor(size_t bytes, size_t alignment) {
  const size_t least = BlockBytesFor(bytes);
  if (least == 0) return 0;
  return BlockBytesFor((least + alignment - 1) / alignment * alignment);
}

// A number, from 0, for each result of BlockBytesFor().
constexpr size_t SizeClassOf(size_t block_bytes) {
  if (block_bytes <= kBlockAlignment) return 0;
  const auto below = static_cast<size_t>(std::bit_width(block_bytes - 1)) - 1;
  const size_t quarter = ((block_bytes - 1) >> (below - 2)) & 3;
  return (below - 6) * 4 + quarter + 1;
}
inline constexpr size_t kSizeClasses = (47 - 6) * 4 + 1;

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_SIZE_CLASS_H_
