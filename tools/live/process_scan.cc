// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/live/process_scan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "tenon/shm/base/read_file.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/pages/shown_memfd.h"
#include "tenon/shm/process/keeper_name.h"
#include "tenon/shm/process/process_info.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/spawn/child/role.h"
#include "tenon/spawn/supervisor/supervisor_main.h"

namespace tenon::tools {
namespace {

constexpr size_t kMaxMapsBytes = size_t{16} << 20;
constexpr size_t kMaxFds = size_t{1} << 20;  // Of one process.

// A number in /proc/PID/stat, counted from the state; zero if unknown.
uint64_t FieldOf(pid_t pid, size_t number) {
  const std::string stat =
      ReadFile(absl::StrCat("/proc/", pid, "/stat"), 4096).value_or("");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return 0;
  const std::vector<absl::string_view> fields = absl::StrSplit(
      absl::string_view(stat).substr(name_end + 1), ' ', absl::SkipEmpty());
  uint64_t value;
  const bool found =
      number < fields.size() && absl::SimpleAtoi(fields[number], &value);
  return found ? value : 0;
}

// The pid of a process' parent.
pid_t ParentOf(pid_t pid) { return static_cast<pid_t>(FieldOf(pid, 1)); }

// Time since the process was started; zero if unknown.
absl::Duration AgeOf(pid_t pid) {
  const uint64_t ticks = FieldOf(pid, 19);
  double uptime;
  const std::string up = ReadFile("/proc/uptime", 4096).value_or("");
  if (ticks == 0 || !absl::SimpleAtod(up.substr(0, up.find(' ')), &uptime)) {
    return absl::ZeroDuration();
  }
  const double started =
      static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(absl::ZeroDuration(), absl::Seconds(uptime - started));
}

// "tenon-k4711". A keeper's pid in its own namespace may be another one than
// here.
bool IsKeeperName(absl::string_view name) {
  int pid;
  return absl::ConsumePrefix(&name, kKeeperName) &&
         absl::SimpleAtoi(name, &pid);
}

bool RunsShmManager(pid_t pid) {
  char link[4096];
  const ssize_t length =
      readlink(absl::StrCat("/proc/", pid, "/exe").c_str(), link, sizeof(link));
  if (length <= 0) return false;
  absl::string_view program(link, static_cast<size_t>(length));
  absl::ConsumeSuffix(&program, " (deleted)");
  return absl::EndsWith(program, "/tenon_shm_manager");
}

bool IsLedgerPath(absl::string_view path) {
  return path == "/memfd:tenon.arena (deleted)" ||
         path == "/memfd:tenon.column (deleted)";
}

// Of a path for which IsSegmentPath() is true.
std::string LabelOf(absl::string_view path) {
  absl::ConsumeSuffix(&path, " (deleted)");
  absl::ConsumePrefix(&path, "/memfd:");
  return std::string(path);
}

void AddOpenFile(int fd, const ChosenNames& chosen, TenonProcess& process) {
  const std::string path = absl::StrCat("/proc/", process.pid, "/fd/", fd);
  char link[256];
  const ssize_t length = readlink(path.c_str(), link, sizeof(link));
  if (length <= 0) return;
  const absl::string_view target(link, static_cast<size_t>(length));
  if (IsLedgerPath(target)) process.has_ledger = true;
  if (!IsSegmentPath(target, chosen)) return;
  // A process can give a file of its own file system (FUSE) such a path, and
  // never answer. Attributes in the kernel's cache are enough.
  struct statx file;
  if (statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
            STATX_INO | STATX_SIZE, &file) != 0) {
    return;
  }
  process.segments[{file.stx_dev_major, file.stx_dev_minor, file.stx_ino}] = {
      file.stx_size, LabelOf(target), fd};
}

// "7f..-7f.. rw-s 00000000 00:01 1234   /memfd:tenon (deleted)". The size of a
// segment that is no longer open is unknown: the mapped bytes count.
void AddMapping(absl::string_view line, const ChosenNames& chosen,
                TenonProcess& process) {
  const size_t path_at = line.find('/');
  if (path_at == absl::string_view::npos ||
      !IsSegmentPath(line.substr(path_at), chosen)) {
    return;
  }
  FileId id;
  uint64_t begin, end, offset;
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (words.size() < 6) return;
  const std::vector<absl::string_view> range = absl::StrSplit(words[0], '-');
  const std::vector<absl::string_view> device = absl::StrSplit(words[3], ':');
  if (range.size() != 2 || device.size() != 2 ||
      !absl::SimpleHexAtoi(range[0], &begin) ||
      !absl::SimpleHexAtoi(range[1], &end) ||
      !absl::SimpleHexAtoi(words[2], &offset) ||
      !absl::SimpleHexAtoi(device[0], &id.major) ||
      !absl::SimpleHexAtoi(device[1], &id.minor) ||
      !absl::SimpleAtoi(words[4], &id.inode)) {
    return;
  }
  OpenSegment& segment = process.segments[id];
  segment.bytes = std::max(segment.bytes, offset + (end - begin));
  segment.label = LabelOf(line.substr(path_at));
}

// Errors: this process's own limits.
absl::Status LookInto(pid_t pid, const ChosenNames& chosen, ProcessScan& scan) {
  const std::string folder = absl::StrCat("/proc/", pid);
  if (!IsOfThisUser(pid)) return absl::OkStatus();
  TenonProcess process = {.pid = pid};
  const auto fds = FdsOf(pid, kMaxFds);
  if (absl::IsResourceExhausted(fds.status())) return fds.status();
  if (absl::IsPermissionDenied(fds.status())) scan.hidden.push_back(pid);
  if (!fds.ok()) return absl::OkStatus();
  const std::string maps =
      ReadFile(folder + "/maps", kMaxMapsBytes).value_or("");
  // Most processes have no segments, and need no parsing.
  if (absl::StrContains(maps, " /memfd:tenon") ||
      absl::StrContains(maps, " /dev/shm/")) {
    for (absl::string_view line : absl::StrSplit(maps, '\n')) {
      AddMapping(line, chosen, process);
      if (!process.role.has_value()) process.role = spawn::RoleInMapping(line);
    }
  }
  for (const int fd : *fds) {
    AddOpenFile(fd, chosen, process);
  }
  process.name = NameOf(pid);
  if (process.name == spawn::kSupervisorName) {
    process.supervises_for = ParentOf(pid);
  }
  process.is_keeper = IsKeeperName(process.name);
  process.is_shm_manager = RunsShmManager(pid);
  if (process.segments.empty() && !process.has_ledger &&
      !process.role.has_value() && process.supervises_for == 0 &&
      !process.is_keeper && !process.is_shm_manager) {
    return absl::OkStatus();
  }
  process.state = StateOf(pid);
  if (process.state == "ended") return absl::OkStatus();
  process.age = AgeOf(pid);
  scan.processes.push_back(std::move(process));
  return absl::OkStatus();
}

}  // namespace

ChosenNames ChosenNamesOf(const std::vector<NamedSegment>& segments) {
  ChosenNames chosen;
  for (const NamedSegment& segment : segments) {
    if (!IsMadeShmName(segment.name)) chosen.insert(segment.name);
  }
  return chosen;
}

bool IsSegmentPath(absl::string_view path, const ChosenNames& chosen) {
  absl::ConsumeSuffix(&path, " (deleted)");
  if (absl::ConsumePrefix(&path, "/memfd:")) {
    return absl::StartsWith(path, "tenon") && path != "tenon.arena" &&
           path != "tenon.column" && path != spawn::kSupervisorName &&
           !absl::StartsWith(path, "tenon.role ");
  }
  return absl::ConsumePrefix(&path, "/dev/shm/") &&
         (IsMadeShmName(path) || chosen.contains(std::string(path)));
}

absl::StatusOr<ProcessScan> ScanProcesses(const ChosenNames& chosen) {
  TENON_ASSIGN_OR_RETURN(std::vector<pid_t> pids, AllPids());
  std::sort(pids.begin(), pids.end());
  // If not even this process is visible, an apparently unused name may be in
  // use.
  char self[16];
  if (readlink("/proc/self", self, sizeof(self)) <= 0) {
    return absl::NotFoundError(
        "/proc shows no processes; as root: mount -t proc proc /proc");
  }
  ProcessScan scan;
  for (const pid_t pid : pids)
    TENON_RETURN_IF_ERROR(LookInto(pid, chosen, scan));
  return scan;
}

}  // namespace tenon::tools
