// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ProcessScan: the processes of this user that have Tenon's memory open or
// mapped, are children or supervisors of //spawn, keepers, or the daemon of
// names, found in /proc.
//
//   TENON_ASSIGN_OR_RETURN(const ProcessScan scan, ScanProcesses());
//   for (const TenonProcess& process : scan.processes) ...

#ifndef TENON_TOOLS_LIVE_PROCESS_SCAN_H_
#define TENON_TOOLS_LIVE_PROCESS_SCAN_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/spawn/child/role.h"

namespace tenon::tools {

// Identifies a kernel object; the same in every process.
struct FileId {
  unsigned major = 0;
  unsigned minor = 0;
  uint64_t inode = 0;
  friend auto operator<=>(const FileId&, const FileId&) = default;
};

// A segment that a process has open or mapped.
struct OpenSegment {
  uint64_t bytes = 0;
  // The label of its memfd, or "/dev/shm/<name>".
  std::string label;
  int fd = -1;  // -1: it is only mapped.
};

struct TenonProcess {
  pid_t pid = 0;
  std::string name;   // Chosen by the process: any bytes.
  std::string state;  // "running" or "stopped".
  absl::Duration age = absl::ZeroDuration();  // Since it was started.
  bool has_ledger = false;  // Tables or columns of the ledger are open.
  // Of a child of //spawn.
  std::optional<spawn::Role> role;
  // Of a supervisor of //spawn: the process whose children it supervises.
  pid_t supervises_for = 0;
  // A process that outlives its starter (//shm/process:keeper).
  bool is_keeper = false;
  // The daemon of names, whether it is a keeper or runs in the foreground.
  bool is_shm_manager = false;
  // Each once, however often it is open or mapped.
  std::map<FileId, OpenSegment> segments;
};

struct ProcessScan {
  std::vector<TenonProcess> processes;  // By pid.
  // Processes of this user that could not be inspected.
  std::vector<pid_t> hidden;
};

// Names in /dev/shm that programs chose (SegmentOptions::name).
using ChosenNames = std::set<std::string, std::less<>>;

// Those of `segments`. Pure.
ChosenNames ChosenNamesOf(const std::vector<NamedSegment>& segments);

// Whether a path from /proc/PID/fd or /proc/PID/maps is a segment of Tenon: a
// memfd whose label begins with "tenon", except the ledger's and //spawn's, or
// "/dev/shm/<prefix>-<32 hex digits>", or a name in `chosen` there. A memfd
// with another SegmentOptions::name_prefix is known only by its arena. Pure.
bool IsSegmentPath(absl::string_view path, const ChosenNames& chosen = {});

// Inspects every process once: some 200 us of CPU time for a process with a
// hundred mappings, 2 us more for each open file and mapping; at most 16 MiB of
// the text that lists them. Never waits for a process, and opens none of its
// files. Processes that end meanwhile are omitted. A forked process that
// inherited the descriptors is included.
// Errors: kNotFound if no /proc shows this process, kResourceExhausted at a
// limit of descriptors.
absl::StatusOr<ProcessScan> ScanProcesses(const ChosenNames& chosen = {});

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_PROCESS_SCAN_H_
