// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon doctor`: whether Tenon works on this machine, and at which cost.

#ifndef TENON_TOOLS_DOCTOR_DOCTOR_H_
#define TENON_TOOLS_DOCTOR_DOCTOR_H_

#include <vector>

#include "tenon/tools/doctor/finding.h"

namespace tenon::tools {

// Runs all checks, the most important first. Creates, and removes again, some
// memory and a name in /dev/shm, and forks once; so it must not run in a
// process with other threads. Takes some 50 ms, and more with many processes on
// the machine.
std::vector<Finding> Examine();

}  // namespace tenon::tools

#endif  // TENON_TOOLS_DOCTOR_DOCTOR_H_
