// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RangeAllocator: allocates and frees ranges of the numbers 0 to n-1.

#ifndef TENON_SHM_LEDGER_RANGE_ALLOCATOR_H_
#define TENON_SHM_LEDGER_RANGE_ALLOCATOR_H_

#include <cstdint>
#include <map>
#include <optional>

namespace tenon {

// First fit; adjacent free ranges are merged.
// Threads: thread-compatible.
class RangeAllocator {
 public:
  explicit RangeAllocator(uint64_t size) { free_[0] = size; }

  // The first of `count` (> 0) consecutive numbers, or empty if there are none.
  std::optional<uint64_t> Allocate(uint64_t count);
  // Frees a range of Allocate().
  void Free(uint64_t first, uint64_t count);

 private:
  std::map<uint64_t, uint64_t> free_;  // First -> count; no two are adjacent.
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_RANGE_ALLOCATOR_H_
