// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingEnd and RingStats: the reports of a ring's ends.

#ifndef TENON_IPC_RING_RING_REPORT_H_
#define TENON_IPC_RING_RING_REPORT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// A reader for which the producer no longer waits, and the reason:
//   kUnavailable        it has died or left
//   kDataLoss           its tail is corrupt
//   kResourceExhausted  it was too slow (kDropReader)
//   kCancelled          RemoveReader()
struct RingEnd {
  uint64_t reader = 0;
  absl::Status status;
};

// The waits and wake-ups of one end of a ring.
struct RingStats {
  uint64_t spins_won = 0;  // Waits that ended while spinning.
  uint64_t sleeps = 0;     // Calls of poll().
  uint64_t wakes = 0;      // Wake-ups of peers, one system call each.
};

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_REPORT_H_
