// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/locks/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {
namespace {

// A few microseconds: the cost of a sleep and a wake-up.
constexpr int kSpinRounds = 100;

}  // namespace

void KernelFutex::Wait(const SharedWord<uint32_t>& word, uint32_t expected,
                       Deadline deadline) {
  const absl::Duration wait = std::min(deadline.Remaining(), kFutexRecheck);
  if (wait <= absl::ZeroDuration()) return;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const timespec until =
      absl::ToTimespec(absl::DurationFromTimespec(now) + wait);
  syscall(SYS_futex, word.address(), FUTEX_WAIT_BITSET, expected, &until,
          nullptr, FUTEX_BITSET_MATCH_ANY);
}

void KernelFutex::Wake(const SharedWord<uint32_t>& word, uint32_t count) {
  syscall(SYS_futex, word.address(), FUTEX_WAKE, std::min(count, kAll), nullptr,
          nullptr, 0);
}

int KernelFutex::SpinRounds() {
  static const int rounds = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? kSpinRounds : 0;
  return rounds;
}

}  // namespace tenon
