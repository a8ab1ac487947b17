// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/cli/command_line.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/tools/cli/terminal_text.h"

namespace tenon::tools {
namespace {

// The number of letters to be changed, added or removed.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

absl::Status UnknownFlag(absl::string_view word,
                         const std::vector<FlagSpec>& specs) {
  std::vector<std::string> flags;
  for (const FlagSpec& spec : specs) {
    flags.push_back(absl::StrCat("--", spec.name));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown flag '", TerminalText(word), "'", Suggestion(word, flags)));
}

}  // namespace

absl::StatusOr<CommandLine> CommandLine::Parse(
    const std::vector<FlagSpec>& specs, const std::vector<std::string>& words) {
  CommandLine line;
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view name = words[i];
    if (!absl::ConsumePrefix(&name, "--") || name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected argument '", TerminalText(words[i]), "'"));
    }
    const size_t equals = name.find('=');
    const std::string flag(name.substr(0, equals));
    const auto spec =
        std::find_if(specs.begin(), specs.end(),
                     [&](const FlagSpec& known) { return known.name == flag; });
    if (spec == specs.end()) {
      return UnknownFlag(absl::StrCat("--", flag), specs);
    }
    const bool has_value = equals != absl::string_view::npos;
    if (spec->value.empty() && has_value) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, " takes no value"));
    }
    std::string value;
    if (has_value) value = std::string(name.substr(equals + 1));
    if (!spec->value.empty() && !has_value) {
      if (++i == words.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", flag, " needs a value: ", spec->value));
      }
      value = words[i];
    }
    if (!line.flags_.emplace(flag, value).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, " is given twice"));
    }
  }
  return line;
}

std::string CommandLine::Text(const std::string& name,
                              const std::string& otherwise) const {
  const auto found = flags_.find(name);
  return found == flags_.end() ? otherwise : found->second;
}

absl::StatusOr<double> CommandLine::Number(const std::string& name,
                                           double otherwise, double least,
                                           double most) const {
  const auto found = flags_.find(name);
  if (found == flags_.end()) return otherwise;
  double number;
  // Written so that "nan" is rejected, too.
  if (absl::SimpleAtod(found->second, &number) && number >= least &&
      number <= most) {
    return number;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, " must be a number from ", least, " to ", most,
                   ", not '", TerminalText(found->second), "'"));
}

std::string Suggestion(absl::string_view word,
                       const std::vector<std::string>& candidates) {
  constexpr size_t kLongest = 40;  // Longer words are no typing errors.
  std::string nearest;
  size_t least = 3;
  for (const std::string& candidate : candidates) {
    if (word.size() > kLongest) break;
    const size_t distance = Distance(word, candidate);
    if (distance >= least || distance >= candidate.size()) continue;
    least = distance;
    nearest = candidate;
  }
  if (nearest.empty()) return "";
  return absl::StrCat("; did you mean '", nearest, "'?");
}

}  // namespace tenon::tools
