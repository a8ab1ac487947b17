// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/ledger/range_allocator.h"

#include <cstdint>
#include <iterator>
#include <optional>

namespace tenon {

std::optional<uint64_t> RangeAllocator::Allocate(uint64_t count) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const auto [first, size] = *it;
    if (size < count) continue;
    free_.erase(it);
    if (size > count) free_[first + count] = size - count;
    return first;
  }
  return std::nullopt;
}

void RangeAllocator::Free(uint64_t first, uint64_t count) {
  auto it = free_.emplace(first, count).first;
  const auto next = std::next(it);
  if (next != free_.end() && first + count == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  const auto previous = std::prev(it);
  if (previous->first + previous->second != it->first) return;
  previous->second += it->second;
  free_.erase(it);
}

}  // namespace tenon
