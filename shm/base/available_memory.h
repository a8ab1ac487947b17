// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// AvailableMemory: how much this process could allocate before the kernel would
// start to kill processes for memory.
//
// A memfd is not charged against any limit when its size is set, and filling it
// beyond the memory of the machine or of the memory cgroup does not fail: the
// kernel kills a process. So large allocations check here first.

#ifndef TENON_SHM_BASE_AVAILABLE_MEMORY_H_
#define TENON_SHM_BASE_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace tenon {

struct AvailableMemory {
  // The largest uint64_t if no limit is known.
  uint64_t bytes;
  // For messages: the source of the bound, its value, and the command that
  // raises it.
  std::string bound_by;
};

// The minimum of the machine's available memory and swap, and of the memory
// left in each enclosing memory cgroup (version 1 or 2). An upper bound, true
// for a moment: other processes allocate too. Reads files under /proc and /sys;
// a missing limit does not count. Tests put a `root` before those paths.
AvailableMemory GetAvailableMemory(const std::string& root = "");

// The same if all other processes ended: the machine's memory and swap, and the
// limits of the cgroups. A larger allocation can never be made.
AvailableMemory GetMemoryLimit(const std::string& root = "");

}  // namespace tenon

#endif  // TENON_SHM_BASE_AVAILABLE_MEMORY_H_
