// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/live/mem.h"

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/arena/ledger_query.h"
#include "tenon/shm/ledger/process_info.h"
#include "tenon/shm/sharing_strategy.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/cli/quantity.h"
#include "tenon/tools/cli/table.h"
#include "tenon/tools/cli/terminal_text.h"
#include "tenon/tools/live/ps.h"

namespace tenon::tools {
namespace {

constexpr size_t kNoQuota = std::numeric_limits<size_t>::max();

std::string OwnerText(pid_t owner) {
  if (owner == 0) return "owner ended; nothing is taken back any more";
  return absl::StrCat("owner ", owner, " ", TerminalText(NameOf(owner)), " (",
                      StateOf(owner), ")");
}

std::string SumText(const char* what, const BlockSum& sum) {
  return absl::StrCat(what, " ", sum.blocks, " (", FormatBytes(sum.bytes), ")");
}

std::string HoldersText(const ArenaReport& arena) {
  if (arena.holders.empty()) return "  held by nobody\n";
  Table table({">HOLDER", "NAME", "STATE", ">BLOCKS", ">BYTES", ">OLDEST"});
  for (const HolderUse& holder : arena.holders) {
    table.AddRow(
        {holder.pid == 0 ? "?" : absl::StrCat(holder.pid),
         absl::StrCat(holder.name, holder.column.is_zero() ? " (owner)" : ""),
         holder.state, absl::StrCat(holder.blocks), FormatBytes(holder.bytes),
         FormatAge(holder.oldest)});
  }
  return table.ToText(2);
}

std::string ArenaText(const ArenaReport& arena) {
  return absl::StrCat(
      "arena '", TerminalText(arena.name), "', ", OwnerText(arena.owner),
      "\n  ", SharingStrategyName(arena.strategy),
      arena.shared_writable ? ", shared-writable" : ", owner-written", ", ",
      arena.segments, arena.segments == 1 ? " segment of " : " segments of ",
      FormatBytes(arena.segment_bytes),
      arena.quota_bytes == kNoQuota
          ? ""
          : absl::StrCat(", quota ", FormatBytes(arena.quota_bytes)),
      "\n  blocks: ", SumText("in use", arena.in_use), ", ",
      SumText("lent", arena.lent), ", ", SumText("resting", arena.resting),
      ", ", SumText("free", arena.free), "\n", HoldersText(arena));
}

Json SumJson(const BlockSum& sum) {
  return {{"blocks", sum.blocks}, {"bytes", sum.bytes}};
}

Json HolderJson(const HolderUse& holder) {
  return {{"pid", holder.pid},
          {"name", holder.name},
          {"state", holder.state},
          {"is_owner", holder.column.is_zero()},
          {"blocks", holder.blocks},
          {"bytes", holder.bytes},
          {"oldest_ms", absl::ToInt64Milliseconds(holder.oldest)}};
}

Json ArenaJson(const ArenaReport& arena) {
  Json holders = Json::array();
  for (const HolderUse& holder : arena.holders) {
    holders.push_back(HolderJson(holder));
  }
  return {
      {"id", arena.arena.ToString()},
      {"name", arena.name},
      {"owner",
       {{"pid", arena.owner},
        {"name", NameOf(arena.owner)},
        {"state", arena.owner == 0 ? "ended" : StateOf(arena.owner)}}},
      {"strategy", std::string(SharingStrategyName(arena.strategy))},
      {"shared_writable", arena.shared_writable},
      {"quota_bytes",
       arena.quota_bytes == kNoQuota ? Json(nullptr) : Json(arena.quota_bytes)},
      {"segments", arena.segments},
      {"segment_bytes", arena.segment_bytes},
      {"in_use", SumJson(arena.in_use)},
      {"lent", SumJson(arena.lent)},
      {"resting", SumJson(arena.resting)},
      {"free", SumJson(arena.free)},
      {"holders", std::move(holders)}};
}

}  // namespace

LedgerReport OnlyOf(pid_t pid, const LedgerReport& report) {
  LedgerReport left = report;
  std::erase_if(left.arenas, [pid](const ArenaReport& arena) {
    return arena.owner != pid &&
           std::none_of(
               arena.holders.begin(), arena.holders.end(),
               [pid](const HolderUse& holder) { return holder.pid == pid; });
  });
  std::erase_if(left.attached, [pid](const AttachedProcess& attached) {
    return attached.pid != pid;
  });
  return left;
}

std::string MemText(const LedgerReport& report) {
  std::string text;
  for (const ArenaReport& arena : report.arenas) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", ArenaText(arena));
  }
  if (text.empty()) text = "no process of this user has an arena\n";
  return absl::StrCat(text, HiddenText(report.hidden));
}

Json MemJson(const LedgerReport& report) {
  Json arenas = Json::array();
  for (const ArenaReport& arena : report.arenas) {
    arenas.push_back(ArenaJson(arena));
  }
  return {{"arenas", std::move(arenas)}, {"hidden_pids", report.hidden}};
}

}  // namespace tenon::tools
