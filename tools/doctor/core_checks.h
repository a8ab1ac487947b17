// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Check of the cores that this process may use.

#ifndef TENON_TOOLS_DOCTOR_CORE_CHECKS_H_
#define TENON_TOOLS_DOCTOR_CORE_CHECKS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "tenon/tools/doctor/finding.h"

namespace tenon::tools {

struct CoreFacts {
  size_t online = 0;
  size_t allowed = 0;  // By the process's affinity.
  // The narrowest quota of the cgroups, in cores, and the file that sets it.
  std::optional<double> quota;
  std::string quota_path;
};

CoreFacts ProbeCores(const std::string& root = "");

// Pure. Also explains the consequence of the number for spinning.
Finding CheckCores(const CoreFacts& facts);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_DOCTOR_CORE_CHECKS_H_
