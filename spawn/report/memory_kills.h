// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// How many processes the kernel has killed for want of memory.

#ifndef TENON_SPAWN_REPORT_MEMORY_KILLS_H_
#define TENON_SPAWN_REPORT_MEMORY_KILLS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tenon::spawn {

// Of the control group that this process and, as a rule, its children are in
// ("oom_kill" of memory.events; of memory.oom_control in version 1). Empty
// where that cannot be read. Costs one small file; the group is looked up once.
std::optional<int64_t> CountMemoryKills();

// The file to read for a process with this /proc/PID/cgroup, in the usual
// mounts; empty if there is none.
std::string MemoryEventsFile(absl::string_view proc_cgroup);

// "oom_kill" among lines of "name value". Empty if it is not there.
std::optional<int64_t> ParseMemoryKills(absl::string_view events);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_MEMORY_KILLS_H_
