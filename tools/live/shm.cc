// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/live/shm.h"

#include <sys/sysmacros.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm_manager/manager_stats.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/cli/quantity.h"
#include "tenon/tools/cli/table.h"
#include "tenon/tools/live/process_scan.h"

namespace tenon::tools {
namespace {

const char* StateText(const NamedSegment& segment) {
  if (!segment.is_held) return "dead";
  return segment.is_finished ? "held" : "being created";
}

FileId IdOf(const NamedSegment& segment) {
  return {major(segment.device), minor(segment.device), segment.inode};
}

std::string HoldersText(const ShmRow& row) {
  constexpr size_t kShown = 4;
  if (row.holders.empty()) {
    return row.segment.is_held ? "not visible here" : "none";
  }
  std::vector<std::string> shown;
  for (const ShmHolder& holder : row.holders) {
    if (shown.size() == kShown) break;
    shown.push_back(absl::StrCat(holder.pid, " ", holder.name));
  }
  std::string text = absl::StrJoin(shown, ", ");
  if (row.holders.size() > kShown) {
    absl::StrAppend(&text, ", and ", row.holders.size() - kShown, " more");
  }
  return text;
}

uint64_t SumOfBytes(const std::vector<NamedSegment>& segments) {
  uint64_t bytes = 0;
  for (const NamedSegment& segment : segments) bytes += segment.allocated_bytes;
  return bytes;
}

}  // namespace

std::vector<ShmRow> ShmRows(const std::vector<NamedSegment>& segments,
                            const ProcessScan& scan) {
  std::vector<ShmRow> rows;
  for (const NamedSegment& segment : segments) {
    ShmRow row = {.segment = segment};
    for (const TenonProcess& process : scan.processes) {
      if (process.segments.contains(IdOf(segment))) {
        row.holders.push_back({process.pid, process.name});
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string ShmText(const std::vector<ShmRow>& rows, absl::Time now,
                    size_t width) {
  if (rows.empty()) return "no named segments of this user in /dev/shm\n";
  Table table({"NAME", "STATE", ">SIZE", ">MEMORY", ">AGE", "HOLDERS"});
  for (const ShmRow& row : rows) {
    const NamedSegment& segment = row.segment;
    table.AddRow({segment.name, StateText(segment),
                  FormatBytes(segment.size_bytes),
                  FormatBytes(segment.allocated_bytes),
                  FormatAge(now - segment.created), HoldersText(row)});
  }
  return table.ToText(0, width);
}

Json ShmJson(const std::vector<ShmRow>& rows) {
  Json segments = Json::array();
  for (const ShmRow& row : rows) {
    Json holders = Json::array();
    for (const ShmHolder& holder : row.holders) {
      holders.push_back({{"pid", holder.pid}, {"name", holder.name}});
    }
    segments.push_back(
        {{"name", row.segment.name},
         {"state", StateText(row.segment)},
         {"size_bytes", row.segment.size_bytes},
         {"allocated_bytes", row.segment.allocated_bytes},
         {"created_unix_ms", absl::ToUnixMillis(row.segment.created)},
         {"holders", std::move(holders)}});
  }
  return {{"segments", std::move(segments)}};
}

std::string ShmGcText(const std::vector<NamedSegment>& dead, bool removed) {
  if (dead.empty()) return "no names are left by dead processes\n";
  Table table({"NAME", ">MEMORY"});
  for (const NamedSegment& segment : dead) {
    table.AddRow({segment.name, FormatBytes(segment.allocated_bytes)});
  }
  return absl::StrCat(table.ToText(), removed ? "removed " : "would remove ",
                      dead.size(), dead.size() == 1 ? " name, " : " names, ",
                      FormatBytes(SumOfBytes(dead)), "\n");
}

Json ShmGcJson(const std::vector<NamedSegment>& dead, bool removed) {
  Json names = Json::array();
  for (const NamedSegment& segment : dead) {
    names.push_back(
        {{"name", segment.name}, {"allocated_bytes", segment.allocated_bytes}});
  }
  return {{"removed", removed},
          {"names", std::move(names)},
          {"bytes", SumOfBytes(dead)}};
}

std::string ShmStatsText(const ManagerStats& stats) {
  Table table({"COUNT", ">VALUE"});
  table.AddRow({"attached clients", absl::StrCat(stats.clients)});
  table.AddRow({"names kept", absl::StrCat(stats.kept_names)});
  table.AddRow({"clients in all", absl::StrCat(stats.attached)});
  table.AddRow({"connections refused", absl::StrCat(stats.refused)});
  table.AddRow({"malformed messages", absl::StrCat(stats.malformed)});
  table.AddRow({"sweeps", absl::StrCat(stats.sweeps)});
  table.AddRow({"failed sweeps", absl::StrCat(stats.failed_sweeps)});
  table.AddRow({"names removed", absl::StrCat(stats.removed_names)});
  table.AddRow({"memory freed", FormatBytes(stats.removed_bytes)});
  return table.ToText();
}

Json ShmStatsJson(const ManagerStats& stats) {
  return {{"clients", stats.clients},
          {"kept_names", stats.kept_names},
          {"attached", stats.attached},
          {"refused", stats.refused},
          {"malformed", stats.malformed},
          {"sweeps", stats.sweeps},
          {"failed_sweeps", stats.failed_sweeps},
          {"removed_names", stats.removed_names},
          {"removed_bytes", stats.removed_bytes}};
}

}  // namespace tenon::tools
