// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef TENON_SHM_BASE_MONOTONIC_NS_H_
#define TENON_SHM_BASE_MONOTONIC_NS_H_

#include <time.h>

#include <cstdint>

namespace tenon {

// CLOCK_MONOTONIC in nanoseconds, the same in all processes of a machine.
// Async-signal-safe.
inline int64_t MonotonicNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace tenon

#endif  // TENON_SHM_BASE_MONOTONIC_NS_H_
