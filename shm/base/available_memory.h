// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// AvailableMemory: how much this process could allocate before the kernel would
// start to kill processes for memory.
//
// A memfd is not charged against any limit when its size is set, and filling it
// beyond what the machine or the memory cgroup has is not an error: it kills.
// So large allocations ask here first.

#ifndef TENON_SHM_BASE_AVAILABLE_MEMORY_H_
#define TENON_SHM_BASE_AVAILABLE_MEMORY_H_

#include <cstdint>
#include <string>

namespace tenon {

struct AvailableMemory {
  // The largest number there is, if nothing is known.
  uint64_t bytes;
  // What sets the bound, how large that is, and the command that raises it, for
  // messages.
  std::string bound_by;
};

// The least of: memory and swap that the machine has available, and what each
// memory cgroup (version 1 or 2) around this process has left. An upper bound,
// true for a moment: others allocate too. Reads files under /proc and /sys;
// a missing limit does not count. Tests put a `root` before those paths.
AvailableMemory GetAvailableMemory(const std::string& root = "");

}  // namespace tenon

#endif  // TENON_SHM_BASE_AVAILABLE_MEMORY_H_
