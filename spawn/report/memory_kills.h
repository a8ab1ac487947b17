// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The kernel's count of processes killed for lack of memory.

#ifndef TENON_SPAWN_REPORT_MEMORY_KILLS_H_
#define TENON_SPAWN_REPORT_MEMORY_KILLS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tenon::spawn {

// For the control group of this process and, usually, its children ("oom_kill"
// of memory.events; of memory.oom_control in version 1). Empty if it cannot be
// read. Costs one small file; the group is looked up once.
std::optional<int64_t> CountMemoryKills();

// The file to read for a process with this /proc/PID/cgroup, in the usual
// mounts; empty if there is none.
std::string MemoryEventsFile(absl::string_view proc_cgroup);

// "oom_kill" among lines of "name value". Empty if missing.
std::optional<int64_t> ParseMemoryKills(absl::string_view events);

// The memory of that group, or of the nearest one above it that has a limit:
// "peak 3.9 of 4.0 GiB"; "limit 4.0 GiB" if its peak cannot be read; empty if
// no limit can be.
std::string DescribeGroupMemory();

// The same for contents of files: a limit and a peak, in bytes.
std::string DescribeMemory(absl::string_view limit, absl::string_view peak);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_MEMORY_KILLS_H_
