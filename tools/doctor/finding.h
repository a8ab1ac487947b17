// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Finding: the result of one check of `tenon doctor`.

#ifndef TENON_TOOLS_DOCTOR_FINDING_H_
#define TENON_TOOLS_DOCTOR_FINDING_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tenon/tools/cli/json.h"

namespace tenon::tools {

enum class Level {
  kOk,
  kWarning,  // Tenon works, at a cost or without some option.
  kFailure,  // Tenon, or most of it, does not work.
};

struct Finding {
  std::string check;  // "open files"
  Level level = Level::kOk;
  std::string found;  // The actual state, with its figures.
  std::string cost;   // The consequence; empty if none.
  std::string fix;    // A command that fixes it; empty if none.
};

// "OK", "WARN" or "FAIL".
const char* LevelName(Level level);

// Whether no finding is a kFailure.
bool AllWork(const std::vector<Finding>& findings);

// Two more lines for each that is not OK, and a summary at the end; folded to
// `width` columns (0: any). Pure.
std::string FindingsText(const std::vector<Finding>& findings,
                         size_t width = 0);

// {"ok": bool, "findings": [{"check", "level", "found", "cost", "fix"}, ...]}.
Json FindingsJson(const std::vector<Finding>& findings);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_DOCTOR_FINDING_H_
