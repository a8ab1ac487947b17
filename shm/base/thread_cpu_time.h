// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef TENON_SHM_BASE_THREAD_CPU_TIME_H_
#define TENON_SHM_BASE_THREAD_CPU_TIME_H_

#include <time.h>

#include "absl/time/time.h"

namespace tenon {

// The CPU time of this thread since it began: unlike a clock it does not count
// the time of others on a busy machine.
inline absl::Duration ThreadCpuTime() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace tenon

#endif  // TENON_SHM_BASE_THREAD_CPU_TIME_H_
