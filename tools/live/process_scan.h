// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ProcessScan: the processes of this user that have memory of Tenon open or
// mapped, found in /proc.
//
//   TENON_ASSIGN_OR_RETURN(const ProcessScan scan, ScanProcesses());
//   for (const TenonProcess& process : scan.processes) ...

#ifndef TENON_TOOLS_LIVE_PROCESS_SCAN_H_
#define TENON_TOOLS_LIVE_PROCESS_SCAN_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tenon::tools {

// Which kernel object; the same in every process.
struct FileId {
  unsigned major = 0;
  unsigned minor = 0;
  uint64_t inode = 0;
  friend auto operator<=>(const FileId&, const FileId&) = default;
};

struct TenonProcess {
  pid_t pid = 0;
  std::string name;   // As the process calls itself: any bytes.
  std::string state;  // "running" or "stopped".
  absl::Duration age = absl::ZeroDuration();  // Since it was started.
  bool has_ledger = false;  // It has tables or columns of the ledger open.
  // Each once, however often it is open or mapped, and its bytes.
  std::map<FileId, uint64_t> segments;
};

struct ProcessScan {
  std::vector<TenonProcess> processes;  // By pid.
  // Processes of this user that could not be looked into.
  std::vector<pid_t> hidden;
};

// Whether a file, as /proc/PID/fd or /proc/PID/maps calls it, is a segment of
// Tenon: a memfd whose label begins with "tenon", unless it is the ledger's, or
// "/dev/shm/<prefix>-<32 hex digits>". A memfd with another
// SegmentOptions::name_prefix is known only by its arena. Pure.
bool IsSegmentPath(absl::string_view path);

// Whether a name in /dev/shm looks like one that MakeShmName() made. Pure.
bool IsMadeName(absl::string_view name);

// Looks once at every process: some 200 us of CPU time for one with a hundred
// mappings, 2 us more for each open file and mapping; at most 16 MiB of the
// text that lists them. Never waits for a process, and opens none of its files.
// Those that end meanwhile are left out. One that was forked and inherited the
// descriptors is one that has them.
// Errors: kNotFound if there is no /proc that shows this process,
// kResourceExhausted at a limit of descriptors.
absl::StatusOr<ProcessScan> ScanProcesses();

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_PROCESS_SCAN_H_
