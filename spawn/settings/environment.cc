// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/settings/environment.h"

#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tenon::spawn {
namespace {

bool IsReplaced(absl::string_view variable,
                const std::vector<std::pair<std::string, std::string>>& added) {
  for (const auto& [name, value] : added) {
    if (variable.size() > name.size() && variable[name.size()] == '=' &&
        absl::StartsWith(variable, name)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> merged;
  for (char** one = environ; one != nullptr && *one != nullptr; ++one) {
    if (!IsReplaced(*one, added)) merged.emplace_back(*one);
  }
  for (const auto& [name, value] : added) {
    merged.push_back(absl::StrCat(name, "=", value));
  }
  return merged;
}

}  // namespace tenon::spawn
