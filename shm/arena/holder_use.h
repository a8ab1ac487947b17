// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// HolderUse: the blocks that one process holds of an arena, and their
// description.

#ifndef TENON_SHM_ARENA_HOLDER_USE_H_
#define TENON_SHM_ARENA_HOLDER_USE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tenon/shm/base/random_id.h"

namespace tenon {

struct HolderUse {
  pid_t pid = 0;      // 0: in a pid namespace that is not visible from here.
  std::string name;   // As set by the process itself.
  std::string state;  // "running", "stopped", "ended", "unknown".
  RandomId column;    // Zero for the owner's own blocks.
  size_t blocks = 0;
  size_t bytes = 0;  // Of whole blocks.
  // Since the oldest of them was allocated, at the resolution of the kernel's
  // tick.
  absl::Duration oldest = absl::ZeroDuration();
  // The number of block tests that failed because it claimed and released
  // meanwhile.
  uint64_t moved = 0;
};

// Most bytes first.
void SortByBytes(std::vector<HolderUse>& holders);

// "pid 4711 'trainer' (stopped) 3 blocks, 49152 bytes, oldest 12.3s; ...": the
// first `count`, and the number of further ones. "no process" if the list is
// empty.
std::string DescribeHolders(const std::vector<HolderUse>& holders,
                            size_t count);

}  // namespace tenon

#endif  // TENON_SHM_ARENA_HOLDER_USE_H_
