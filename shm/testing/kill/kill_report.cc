// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/kill_report.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace tenon {
namespace {

std::string CellInWords(const KillReport::Cell& cell) {
  if (cell.kills == 0) return "-";
  std::string words =
      absl::StrCat(cell.kills, cell.kills == 1 ? " kill" : " kills");
  if (cell.failures > 0) absl::StrAppend(&words, ", ", cell.failures, " FAIL");
  return words;
}

}  // namespace

bool KillReport::ok() const {
  return failures.empty() && unreached.empty() && !given_up && kills > 0;
}

std::string KillReport::ToString() const {
  std::string text = absl::StrFormat(
      "kill matrix '%s': %d runs, %d kills, %d failures, %s\n", scenario, runs,
      kills, failures.size(),
      absl::FormatDuration(absl::Floor(time, absl::Milliseconds(1))));
  absl::StrAppendFormat(&text, "%-34s", "point");
  for (const std::string& role : roles) {
    absl::StrAppendFormat(&text, " %-16s", role);
  }
  for (const auto& [point, cells] : table) {
    absl::StrAppendFormat(&text, "\n%-34s", point);
    for (const std::string& role : roles) {
      const auto cell = cells.find(role);
      absl::StrAppendFormat(
          &text, " %-16s",
          CellInWords(cell == cells.end() ? Cell() : cell->second));
    }
  }
  for (const auto& [note, count] : notes) {
    absl::StrAppend(&text, "\nnote: ", note, " (", count, " times)");
  }
  for (const KillFailure& failure : failures) {
    absl::StrAppend(&text, "\nFAILED with ", failure.where, ": ", failure.what);
  }
  if (!unreached.empty()) {
    absl::StrAppend(&text, "\nNOT REACHED: ", absl::StrJoin(unreached, ", "));
  }
  if (kills == 0) absl::StrAppend(&text, "\nNO KILL: nothing is proven");
  if (given_up) absl::StrAppend(&text, "\nGIVEN UP before the end");
  return absl::StrCat(text, "\n");
}

}  // namespace tenon
