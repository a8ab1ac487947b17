// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/doctor/finding.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/cli/table.h"
#include "tenon/tools/cli/terminal_text.h"

namespace tenon::tools {
namespace {

size_t Count(const std::vector<Finding>& findings, Level level) {
  return static_cast<size_t>(std::count_if(
      findings.begin(), findings.end(),
      [level](const Finding& finding) { return finding.level == level; }));
}

}  // namespace

const char* LevelName(Level level) {
  switch (level) {
    case Level::kOk:
      return "OK";
    case Level::kWarning:
      return "WARN";
    case Level::kFailure:
      return "FAIL";
  }
  return "?";
}

bool AllWork(const std::vector<Finding>& findings) {
  return Count(findings, Level::kFailure) == 0;
}

std::string FindingsText(const std::vector<Finding>& findings, size_t width) {
  std::string text;
  const auto fold = [&](const std::string& line) {
    absl::StrAppend(&text, FoldLines(line, width));
  };
  for (const Finding& finding : findings) {
    fold(absl::StrFormat("%-4s  %-18s  %s\n", LevelName(finding.level),
                         finding.check, TerminalText(finding.found)));
    if (!finding.cost.empty()) {
      fold(absl::StrCat("      costs: ", TerminalText(finding.cost), "\n"));
    }
    if (!finding.fix.empty()) {  // A command, which is copied as one line.
      absl::StrAppend(&text, "      fix:   ", TerminalText(finding.fix), "\n");
    }
  }
  fold(absl::StrCat(Count(findings, Level::kOk), " OK, ",
                    Count(findings, Level::kWarning), " to know about, ",
                    Count(findings, Level::kFailure), " that must be fixed\n"));
  return text;
}

Json FindingsJson(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"check", finding.check},
                    {"level", LevelName(finding.level)},
                    {"found", finding.found},
                    {"cost", finding.cost},
                    {"fix", finding.fix}});
  }
  return {{"ok", AllWork(findings)}, {"findings", std::move(list)}};
}

}  // namespace tenon::tools
