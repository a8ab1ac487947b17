// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/harness/report.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "tenon/benchmarks/harness/machine.h"
#include "tenon/benchmarks/harness/run_row.h"
#include "tenon/benchmarks/harness/turns.h"

namespace tenon::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

std::optional<size_t> LimitOf(const RowResult& row) {
  for (size_t i = 0; i < row.subjects.size(); ++i) {
    if (row.subjects[i].name == row.row.limit) return i;
  }
  return std::nullopt;
}

// Why a subject has no figures; empty: it has.
std::string WhyNot(const RowResult::Subject& subject) {
  return subject.missing.empty() ? subject.failure : subject.missing;
}

// ---- The table. ----

std::string Cells(const RowResult& row, Group group, size_t subject) {
  const Quartiles ns = row.turns.Nanoseconds(group, subject);
  if (ns.count == 0) return absl::StrFormat("%38s", "-");
  std::string ratio;
  if (const auto limit = LimitOf(row)) {
    const Quartiles ratios = row.turns.Ratio(group, subject, *limit);
    // None if the limit was not measured in these turns.
    if (ratios.count > 0) ratio = absl::StrFormat("%.2f", ratios.median);
  }
  return absl::StrFormat("%10.1f %9.1f ..%9.1f %6s", ns.median, ns.lower,
                         ns.upper, ratio);
}

// The second line: the number of turns, and what did not occur.
std::string Counts(const RowResult& row, const RunOptions& options) {
  std::string counts;
  for (const Group group : GroupsOf(row.row)) {
    const std::string name = GroupName(group);
    const size_t count = row.turns.count(group);
    if (count == 0) {
      absl::StrAppend(&counts, name, ": did not occur within ",
                      absl::FormatDuration(options.time), "; ");
      continue;
    }
    absl::StrAppend(&counts, name, ": ", count, " turns, ");
    absl::StrAppendFormat(&counts, "line there and back %.1f",
                          row.turns.Line(group).median);
    if (row.row.sleeps) {
      absl::StrAppendFormat(&counts, ", slept %.2f for each",
                            row.turns.Slept(group).median);
    }
    counts += "; ";
  }
  return absl::StrCat(counts, "discarded: ", row.turns.count(Group::kMixed),
                      " mixed, ", row.turns.count(Group::kAwake), " awake");
}

std::string SubjectLine(const RowResult& row, size_t subject) {
  const RowResult::Subject& its = row.subjects[subject];
  std::string line = absl::StrFormat("  %-20s", its.name);
  if (const std::string why = WhyNot(its); !why.empty()) {
    return absl::StrCat(line, "  ", why, "\n");
  }
  for (const Group group : GroupsOf(row.row)) {
    line += Cells(row, group, subject);
  }
  return line + "\n";
}

// ---- The JSON. ----

Json JsonOf(const Quartiles& quartiles) {
  return {{"median", quartiles.median},
          {"lower_quartile", quartiles.lower},
          {"upper_quartile", quartiles.upper}};
}

Json JsonOf(const MachineFacts& machine) {
  return {{"processor", machine.processor},
          {"kernel", machine.kernel},
          {"compiler", machine.compiler},
          {"optimised", machine.optimised},
          {"usable_cores", machine.usable_cores},
          {"memory_bytes", machine.memory_bytes},
          {"cores", machine.cores},
          {"share_a_core", machine.share_a_core},
          {"load_1m", machine.load_1m},
          {"begun_at", machine.begun_at}};
}

Json FiguresOf(const RowResult& row, Group group, size_t subject) {
  const Quartiles ns = row.turns.Nanoseconds(group, subject);
  if (ns.count == 0) return nullptr;
  Json figures = {{"turns", ns.count}};
  figures["ns"] = JsonOf(ns);
  figures["ns"]["least"] = ns.least;
  if (const auto limit = LimitOf(row)) {
    const Quartiles ratio = row.turns.Ratio(group, subject, *limit);
    if (ratio.count > 0) figures["over_limit"] = JsonOf(ratio);
  }
  return figures;
}

Json SubjectOf(const RowResult& row, size_t subject) {
  const RowResult::Subject& its = row.subjects[subject];
  const char* const status = !its.missing.empty()   ? "missing"
                             : !its.failure.empty() ? "failed"
                                                    : "measured";
  Json json = {{"name", its.name}, {"status", status}};
  if (const std::string why = WhyNot(its); !why.empty()) json["reason"] = why;
  for (const Group group : GroupsOf(row.row)) {
    json[GroupName(group)] = FiguresOf(row, group, subject);
  }
  return json;
}

Json TurnsOf(const RowResult& row) {
  Json turns = Json::object();
  std::vector<Group> groups = GroupsOf(row.row);
  groups.insert(groups.end(), {Group::kMixed, Group::kAwake});
  for (const Group group : groups) {
    Json& json = turns[GroupName(group)];
    json["count"] = row.turns.count(group);
    if (row.turns.count(group) == 0) continue;
    json["line_ns"] = JsonOf(row.turns.Line(group));
    if (row.row.sleeps) json["slept"] = JsonOf(row.turns.Slept(group));
  }
  return turns;
}

std::string StatusName(RowResult::Status status) {
  switch (status) {
    case RowResult::kMeasured:
      return "measured";
    case RowResult::kSkipped:
      return "skipped";
    case RowResult::kFailed:
      return "failed";
  }
  return "unknown";
}

Json JsonOf(const RowResult& row) {
  Json json = {{"name", row.row.name},
               {"what", row.row.what},
               {"unit", "ns"},
               {"limit", row.row.limit},
               {"asleep", row.row.sleeps},
               {"status", StatusName(row.status)}};
  if (!row.reason.empty()) json["reason"] = row.reason;
  json["turns"] = TurnsOf(row);
  json["subjects"] = Json::array();
  for (size_t i = 0; i < row.subjects.size(); ++i) {
    json["subjects"].push_back(SubjectOf(row, i));
  }
  return json;
}

}  // namespace

std::string TableOf(const RowResult& row, const RunOptions& options) {
  std::string table =
      absl::StrFormat("%s: %s; ns\n", row.row.name, row.row.what);
  if (row.status != RowResult::kMeasured) {
    absl::StrAppend(&table, "  ", StatusName(row.status), ": ", row.reason,
                    "\n");
  }
  if (row.status == RowResult::kSkipped) return table;
  absl::StrAppend(&table, "  ", Counts(row, options), "\n");
  absl::StrAppendFormat(&table, "  %-20s", "");
  for (const Group group : GroupsOf(row.row)) {
    absl::StrAppendFormat(&table, "%10s %9s ..%9s %6s", GroupName(group),
                          "lower", "upper", "ratio");
  }
  table += "\n";
  for (size_t i = 0; i < row.subjects.size(); ++i) {
    table += SubjectLine(row, i);
  }
  return table;
}

std::string JsonOf(const Report& report) {
  Json json = {{"schema", 1}, {"commit", report.commit}};
  json["machine"] = JsonOf(report.machine);
  json["options"] = {{"seconds", absl::ToDoubleSeconds(report.options.time)},
                     {"turns", report.options.turns},
                     {"near_below_ns", report.options.near_below_ns}};
  json["rows"] = Json::array();
  for (const RowResult& row : report.rows) json["rows"].push_back(JsonOf(row));
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon::benchmarks
