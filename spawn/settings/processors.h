// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The number of usable processors.

#ifndef TENON_SPAWN_SETTINGS_PROCESSORS_H_
#define TENON_SPAWN_SETTINGS_PROCESSORS_H_

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::spawn {

// On how many processors the calling thread may run: its affinity
// (sched_setaffinity(2), taskset, cpusets; ChildSettings::cpus), not the number
// in the machine. Quotas of time (cgroup cpu.max) do not count. At least 1.
// Thread-safe; one system call.
int UsableProcessors();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SETTINGS_PROCESSORS_H_
