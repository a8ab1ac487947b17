// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Finding: what one check of `tenon doctor` has found.

#ifndef TENON_TOOLS_DOCTOR_FINDING_H_
#define TENON_TOOLS_DOCTOR_FINDING_H_

#include <string>
#include <vector>

#include "tenon/tools/cli/json.h"

namespace tenon::tools {

enum class Level {
  kOk,
  kWarning,  // Tenon works, at a price or without some option.
  kFailure,  // Tenon, or most of it, does not work here.
};

struct Finding {
  std::string check;  // "open files"
  Level level = Level::kOk;
  std::string found;  // What is there, with its figures.
  std::string cost;   // What that costs; empty if nothing.
  std::string fix;    // The command that changes it; empty if there is none.
};

// "OK", "WARN" or "FAIL".
const char* LevelName(Level level);

// Whether nothing of it is a kFailure.
bool AllWork(const std::vector<Finding>& findings);

// Two lines more for each that is not OK, and a sum at the end. Pure.
std::string FindingsText(const std::vector<Finding>& findings);

// {"ok": bool, "findings": [{"check", "level", "found", "cost", "fix"}, ...]}.
Json FindingsJson(const std::vector<Finding>& findings);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_DOCTOR_FINDING_H_
