// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueStats: the system calls and waits of a participant of a queue, for
// reports.

#ifndef TENON_IPC_QUEUE_QUEUE_STATS_H_
#define TENON_IPC_QUEUE_QUEUE_STATS_H_

#include <cstdint>

#include "tenon/shm/base/time_histogram.h"

namespace tenon {

// A snapshot; its values need not be of the same moment.
struct QueueStats {
  // Calls of poll() of finished waits for an item, and for room. Includes those
  // that only look whether the others live, such as AwaitTaken()'s.
  uint64_t get_sleeps = 0;
  uint64_t put_sleeps = 0;
  // Wake-ups of participants that waited for room, by calls that get, and for
  // an item, by calls that put: a call of write() each.
  uint64_t get_wakes = 0;
  uint64_t put_wakes = 0;
  // Whether a thread of this participant sleeps, or its event loop is armed,
  // for an item, and for room.
  bool get_asleep = false;
  bool put_asleep = false;
  // For how long calls that get, and calls that put, have slept; those that did
  // not sleep do not count, nor do event loops. Of this participant and the
  // former holders of its slot.
  TimeHistogram get_waits;
  TimeHistogram put_waits;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_STATS_H_
