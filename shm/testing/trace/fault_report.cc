// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/trace/fault_report.h"

#include <string.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace tenon {
namespace {

std::string ErrorName(int error) {
  const char* name = error == 0 ? "no error" : strerrorname_np(error);
  return name == nullptr ? absl::StrCat("errno ", error) : name;
}

}  // namespace

std::string FaultInWords(const SyscallFault& fault) {
  std::string words = absl::StrCat(fault.call, " ", ErrorName(fault.error));
  if (fault.executed) absl::StrAppend(&words, " (executed)");
  if (fault.persistent) absl::StrAppend(&words, " (from then on)");
  if (fault.delay > absl::ZeroDuration()) {
    absl::StrAppend(&words, " after ", absl::FormatDuration(fault.delay));
  }
  return words;
}

bool FaultReport::ok() const {
  bool happened = false;
  for (const Row& row : rows) happened = happened || row.runs > 0;
  return happened && failures.empty() && !given_up;
}

std::string FaultReport::ToString() const {
  std::string text = absl::StrFormat(
      "faults of '%s': %d faults, %d runs, %d failures, %s", scenario,
      rows.size(), runs, failures.size(),
      absl::FormatDuration(absl::Floor(time, absl::Milliseconds(1))));
  for (const Row& row : rows) {
    absl::StrAppendFormat(&text, "\n  %-36s", FaultInWords(row.fault));
    if (row.runs == 0) absl::StrAppend(&text, " not called");
    for (const auto& [outcome, count] : row.outcomes) {
      absl::StrAppend(&text, " ", outcome, " x", count);
    }
  }
  if (!spared.empty()) {
    absl::StrAppend(&text,
                    "\n  called, never failed: ", absl::StrJoin(spared, ", "));
  }
  for (const Failure& failure : failures) {
    absl::StrAppend(&text, "\nFAILED with ", failure.where, ": ", failure.what);
  }
  if (given_up) absl::StrAppend(&text, "\nGIVEN UP before the end");
  return absl::StrCat(text, "\n");
}

}  // namespace tenon
