// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Checks of the limits of this process and this user: files, mappings,
// processes, locked memory.
//
// Each check has a probe, which collects the facts, and a pure function that
// interprets them.

#ifndef TENON_TOOLS_DOCTOR_LIMIT_CHECKS_H_
#define TENON_TOOLS_DOCTOR_LIMIT_CHECKS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "tenon/tools/doctor/finding.h"

namespace tenon::tools {

inline constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// A soft and a hard resource limit; kNoLimit if there is none.
struct LimitFacts {
  uint64_t soft = kNoLimit;
  uint64_t hard = kNoLimit;
};

LimitFacts ProbeLimit(int resource);

// RLIMIT_NOFILE.
Finding CheckOpenFiles(const LimitFacts& facts);

// RLIMIT_MEMLOCK, and whether a page can be locked.
struct LockedMemoryFacts {
  LimitFacts limit;
  int lock_error = 0;  // errno of mlock().
};
LockedMemoryFacts ProbeLockedMemory();
Finding CheckLockedMemory(const LockedMemoryFacts& facts);

// vm.max_map_count; empty if not known.
Finding CheckMappings(std::optional<uint64_t> max_map_count);

struct ProcessCountFacts {
  uint64_t user_limit = kNoLimit;  // RLIMIT_NPROC; does not apply to root.
  // The narrowest cgroup: how many more processes it admits, and its file.
  uint64_t cgroup_left = kNoLimit;
  std::string cgroup_path;
  std::optional<uint64_t> pid_max;
};
ProcessCountFacts ProbeProcessCount(const std::string& root = "");
Finding CheckProcessCount(const ProcessCountFacts& facts);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_DOCTOR_LIMIT_CHECKS_H_
