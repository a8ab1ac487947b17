// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/live/ps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/spawn/child/role.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/cli/quantity.h"
#include "tenon/tools/cli/table.h"
#include "tenon/tools/live/process_scan.h"

namespace tenon::tools {
namespace {

void AddArena(const ArenaReport& arena, PsRow& row) {
  const pid_t pid = row.process.pid;
  if (arena.owner == pid) {
    ++row.arenas_owned;
    row.bytes_owned += arena.segment_bytes;
  }
  for (const HolderUse& holder : arena.holders) {
    // The owner's own blocks have no column.
    if (holder.pid != pid || holder.column.is_zero()) continue;
    row.blocks_held += holder.blocks;
    row.bytes_held += holder.bytes;
  }
}

// "decode 3 of 4711": entry point, index, parent; "supervisor of 4711": the
// process whose children it supervises; "shm manager", "keeper".
std::string RoleText(const TenonProcess& process) {
  if (process.supervises_for != 0) {
    return absl::StrCat("supervisor of ", process.supervises_for);
  }
  if (process.is_shm_manager) return "shm manager";
  if (process.is_keeper) return "keeper";
  const std::optional<spawn::Role>& role = process.role;
  if (!role.has_value()) return "-";
  return absl::StrCat(
      role->entry, " ", role->index,
      role->parent_pid > 0 ? absl::StrCat(" of ", role->parent_pid) : "");
}

Json RoleJson(const TenonProcess& process) {
  if (process.supervises_for != 0) {
    return {{"kind", "supervisor"}, {"parent_pid", process.supervises_for}};
  }
  if (process.is_shm_manager) return Json::object({{"kind", "shm_manager"}});
  if (process.is_keeper) return Json::object({{"kind", "keeper"}});
  const std::optional<spawn::Role>& role = process.role;
  if (!role.has_value()) return nullptr;
  return {{"kind", "child"},
          {"entry", role->entry},
          {"index", role->index},
          {"parent_pid",
           role->parent_pid > 0 ? Json(role->parent_pid) : Json(nullptr)}};
}

}  // namespace

uint64_t PsRow::SegmentBytes() const {
  uint64_t sum = 0;
  for (const auto& [id, segment] : process.segments) sum += segment.bytes;
  return sum;
}

std::vector<PsRow> PsRows(const ProcessScan& scan, const LedgerReport& report) {
  std::vector<PsRow> rows;
  for (const TenonProcess& process : scan.processes) {
    PsRow row = {.process = process};
    for (const ArenaReport& arena : report.arenas) AddArena(arena, row);
    for (const AttachedProcess& attached : report.attached) {
      if (attached.pid == process.pid) row.attachments += attached.arenas;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string PsText(const std::vector<PsRow>& rows,
                   const std::vector<pid_t>& hidden, size_t width) {
  if (rows.empty()) {
    return absl::StrCat("no process of this user has memory of Tenon open\n",
                        HiddenText(hidden));
  }
  Table table({">PID", "NAME", "ROLE", "STATE", "?>UP", "?>ARENAS", ">OWNED",
               "?>ATTACHED", ">HELD", "?>SEGMENTS", ">BYTES"});
  for (const PsRow& row : rows) {
    const TenonProcess& process = row.process;
    table.AddRow({absl::StrCat(process.pid), process.name, RoleText(process),
                  process.state, FormatAge(process.age),
                  absl::StrCat(row.arenas_owned), FormatBytes(row.bytes_owned),
                  absl::StrCat(row.attachments), FormatBytes(row.bytes_held),
                  absl::StrCat(process.segments.size()),
                  FormatBytes(row.SegmentBytes())});
  }
  return absl::StrCat(table.ToText(0, width), HiddenText(hidden));
}

Json PsJson(const std::vector<PsRow>& rows, const std::vector<pid_t>& hidden,
            absl::Time now) {
  Json processes = Json::array();
  for (const PsRow& row : rows) {
    const TenonProcess& process = row.process;
    processes.push_back(
        {{"pid", process.pid},
         {"name", process.name},
         {"role", RoleJson(process)},
         {"state", process.state},
         {"started_unix_ms", absl::ToUnixMillis(now - process.age)},
         {"arenas_owned", row.arenas_owned},
         {"bytes_owned", row.bytes_owned},
         {"attachments", row.attachments},
         {"blocks_held", row.blocks_held},
         {"bytes_held", row.bytes_held},
         {"segments", process.segments.size()},
         {"segment_bytes", row.SegmentBytes()}});
  }
  return {{"processes", std::move(processes)}, {"hidden_pids", hidden}};
}

std::string HiddenText(const std::vector<pid_t>& hidden) {
  constexpr size_t kShown = 10;
  if (hidden.empty()) return "";
  const size_t shown = std::min(kShown, hidden.size());
  return absl::StrCat(
      "(processes of this user that could not be looked into: ", hidden.size(),
      ", pid ",
      absl::StrJoin(hidden.begin(),
                    hidden.begin() + static_cast<ptrdiff_t>(shown), ", "),
      shown < hidden.size() ? ", ..." : "", ")\n");
}

}  // namespace tenon::tools
