// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/process_info.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/process_identity.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// The beginning of a small file of /proc. On errors false, and errno is set.
bool ReadProc(const std::string& path, std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return false;
  char buffer[4096];
  const ssize_t got =
      RetryOnEintr([&] { return read(fd.get(), buffer, sizeof(buffer)); });
  if (got < 0) return false;
  text.assign(buffer, static_cast<size_t>(got));
  return true;
}

// The same; empty if it cannot be read.
std::string ReadProc(const std::string& path) {
  std::string text;
  return ReadProc(path, text) ? text : "";
}

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
  std::string stat;
  if (!ReadProc(absl::StrCat("/proc/", pid, "/stat"), stat)) {
    return errno == ENOENT || errno == ESRCH ? "ended" : "unknown";
  }
  // The name, in parentheses, may contain anything.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) {
    return "unknown";
  }
  if (IsExiting(stat.substr(name_end + 2))) return "ended";
  switch (stat[name_end + 2]) {
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
  std::string name = ReadProc(absl::StrCat("/proc/", pid, "/comm"));
  absl::StripTrailingAsciiWhitespace(&name);
  return name;
}

std::string NameOf(const PidFd& process) {
  return NameOf(ProcPidOf(process).value_or(0));
}

std::vector<pid_t> PidsOf(pid_t pid) {
  const std::string status = ReadProc(absl::StrCat("/proc/", pid, "/status"));
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
