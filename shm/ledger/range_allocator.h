// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RangeAllocator: gives out ranges of the numbers 0 to n-1, and takes them
// back.

#ifndef TENON_SHM_LEDGER_RANGE_ALLOCATOR_H_
#define TENON_SHM_LEDGER_RANGE_ALLOCATOR_H_

#include <cstdint>
#include <map>
#include <optional>

namespace tenon {

// First fit; neighbours that are free are one range again.
// Threads: thread-compatible.
class RangeAllocator {
 public:
  explicit RangeAllocator(uint64_t size) { free_[0] = size; }

  // The first of `count` (> 0) numbers in a row, or nothing if there are none.
  std::optional<uint64_t> Allocate(uint64_t count);
  // What Allocate() gave.
  void Free(uint64_t first, uint64_t count);

 private:
  std::map<uint64_t, uint64_t> free_;  // First -> count; never two that touch.
};

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_RANGE_ALLOCATOR_H_
