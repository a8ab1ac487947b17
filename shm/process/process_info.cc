// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/process/process_info.h"

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/shm/base/read_file.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_identity.h"

namespace tenon {
namespace {

// Whether a process has begun to exit: it has closed its descriptors, or is
// about to, but is not a zombie yet. `stat` begins at its state field.
bool IsExiting(absl::string_view stat) {
  constexpr size_t kFlags = 6;
  constexpr uint64_t kExiting = 0x4;  // The kernel's PF_EXITING.
  const std::vector<absl::string_view> fields = absl::StrSplit(stat, ' ');
  uint64_t flags = 0;
  return fields.size() > kFlags && absl::SimpleAtoi(fields[kFlags], &flags) &&
         (flags & kExiting) != 0;
}

}  // namespace

std::string StateOf(pid_t pid) {
  if (pid <= 0) return "unknown";
  const absl::StatusOr<std::string> stat =
      ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!stat.ok()) return absl::IsNotFound(stat.status()) ? "ended" : "unknown";
  // The name, in parentheses, may contain anything.
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= stat->size()) {
    return "unknown";
  }
  if (IsExiting(stat->substr(name_end + 2))) return "ended";
  switch ((*stat)[name_end + 2]) {
    case 'T':
    case 't':
      return "stopped";
    case 'Z':
    case 'X':
      return "ended";
    default:
      return "running";
  }
}

std::string StateOf(const PidFd& process) {
  if (process.HasEnded()) return "ended";
  return StateOf(ProcPidOf(process).value_or(0));
}

std::string NameOf(pid_t pid) {
  if (pid <= 0) return "";
  std::string name =
      ReadFile(absl::StrCat("/proc/", pid, "/comm")).value_or("");
  absl::StripTrailingAsciiWhitespace(&name);
  return name;
}

std::string NameOf(const PidFd& process) {
  return NameOf(ProcPidOf(process).value_or(0));
}

std::vector<pid_t> PidsOf(pid_t pid) {
  const std::string status =
      ReadFile(absl::StrCat("/proc/", pid, "/status")).value_or("");
  std::vector<pid_t> pids;
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "NSpid:")) continue;
    for (absl::string_view text :
         absl::StrSplit(line, absl::ByAnyChar("\t "), absl::SkipEmpty())) {
      pid_t number;
      if (absl::SimpleAtoi(text, &number)) pids.push_back(number);
    }
  }
  return pids;
}

}  // namespace tenon
