// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon shm list`, `gc` and `stats`: named segments in /dev/shm, the processes
// that hold them, and the daemon that removes them.

#ifndef TENON_TOOLS_LIVE_SHM_H_
#define TENON_TOOLS_LIVE_SHM_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm_manager/manager_stats.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/live/process_scan.h"

namespace tenon::tools {

struct ShmHolder {
  pid_t pid = 0;
  std::string name;  // Chosen by the process: any bytes.
};

struct ShmRow {
  NamedSegment segment;
  // Those visible here; a held segment may have none.
  std::vector<ShmHolder> holders;
};

// Joins the two. Pure.
std::vector<ShmRow> ShmRows(const std::vector<NamedSegment>& segments,
                            const ProcessScan& scan);

// A line for each name, or one that says that there are none. Pure.
std::string ShmText(const std::vector<ShmRow>& rows, absl::Time now,
                    size_t width = 0);
// {"segments": [...]}. Pure.
Json ShmJson(const std::vector<ShmRow>& rows);

// The dead names; `removed`: whether they have been removed. Pure.
std::string ShmGcText(const std::vector<NamedSegment>& dead, bool removed);
// {"removed": true, "names": [...], "bytes": N}. Pure.
Json ShmGcJson(const std::vector<NamedSegment>& dead, bool removed);

// A line for each count of the daemon. Pure.
std::string ShmStatsText(const ManagerStats& stats);
// {"clients": N, ...}. Pure.
Json ShmStatsJson(const ManagerStats& stats);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_SHM_H_
