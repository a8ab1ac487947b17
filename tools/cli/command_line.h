// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CommandLine: the arguments after a subcommand, as flags with values.
//
//   TENON_ASSIGN_OR_RETURN(
//       const CommandLine line,
//       CommandLine::Parse({{.name = "json"}, {.name = "pid", .value = "N"}},
//                          words));
//   if (line.Has("json")) ...

#ifndef TENON_TOOLS_CLI_COMMAND_LINE_H_
#define TENON_TOOLS_CLI_COMMAND_LINE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tenon::tools {

struct FlagSpec {
  std::string name;   // Without dashes.
  std::string value;  // Its value's name in help; empty: takes no value.
  std::string help;
};

// Ownership: a value. Threads: thread-compatible.
class CommandLine {
 public:
  // Accepts "--flag", "--flag=value" and "--flag value", each at most once, and
  // nothing else. Pure. Errors: kInvalidArgument naming the argument, and the
  // most similar flag.
  static absl::StatusOr<CommandLine> Parse(
      const std::vector<FlagSpec>& specs,
      const std::vector<std::string>& words);

  bool Has(const std::string& name) const { return flags_.contains(name); }

  // The flag's value, or `otherwise` without the flag.
  std::string Text(const std::string& name, const std::string& otherwise) const;

  // The flag's value as a number, or `otherwise` without the flag. Errors:
  // kInvalidArgument if it is not a number from `least` to `most`.
  absl::StatusOr<double> Number(const std::string& name, double otherwise,
                                double least, double most) const;

 private:
  std::map<std::string, std::string> flags_;
};

// "; did you mean 'mem'?", if one of `candidates` is at most two letters away
// from `word`; else nothing. Pure.
std::string Suggestion(absl::string_view word,
                       const std::vector<std::string>& candidates);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_CLI_COMMAND_LINE_H_
