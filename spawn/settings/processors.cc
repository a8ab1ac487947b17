// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/settings/processors.h"

#include <errno.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tenon::spawn {

int UsableProcessors() {
  // The kernel refuses a set that is smaller than its own.
  for (size_t sets = 1; sets <= 64; sets *= 2) {
    std::vector<cpu_set_t> set(sets);
    const size_t bytes = sets * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, set.data()) == 0) {
      return std::max(CPU_COUNT_S(bytes, set.data()), 1);
    }
    if (errno != EINVAL) break;
  }
  return 1;
}

}  // namespace tenon::spawn
