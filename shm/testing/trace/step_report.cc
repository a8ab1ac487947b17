// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/trace/step_report.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/debugging/symbolize.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"

namespace tenon {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);
constexpr size_t kMaxPrinted = 20;

std::string Describe(uint64_t address) {
  void* const pointer = reinterpret_cast<void*>(address);  // NOLINT: is one.
  char name[256];
  std::string where = "?";
  if (absl::Symbolize(pointer, name, sizeof(name))) where = name;
  Dl_info info;
  if (dladdr(pointer, &info) != 0 && info.dli_fname != nullptr) {
    const std::string path = info.dli_fname;
    absl::StrAppend(
        &where, " (", path.substr(path.rfind('/') + 1), "+0x",
        absl::Hex(address - reinterpret_cast<uintptr_t>(info.dli_fbase)), ")");
  }
  return where;
}

}  // namespace

bool StepReport::ok() const {
  return failures.empty() && missed == 0 && positions > 0 && !given_up;
}

std::string StepReport::ToString() const {
  std::string text = absl::StrFormat(
      "steps of '%s': %d instructions, %d system calls; %s: %d of them, %d "
      "failures; %d stops, %s",
      scenario, instructions, syscalls, selection, positions, failures.size(),
      stops, absl::FormatDuration(absl::Floor(time, absl::Milliseconds(1))));
  if (diverged > 0) absl::StrAppend(&text, "; took another path: ", diverged);
  if (missed > 0) absl::StrAppend(&text, "; MISSED: ", missed);
  for (size_t i = 0; i < failures.size(); ++i) {
    if (i == kMaxPrinted) {
      absl::StrAppend(&text, "\n... and ", failures.size() - i, " more");
      break;
    }
    const StepFailure& failure = failures[i];
    absl::StrAppend(&text, "\nFAILED after ", failure.index,
                    " instructions, before ", failure.where, ": ",
                    failure.what);
  }
  if (given_up) absl::StrAppend(&text, "\nGIVEN UP before the end");
  return absl::StrCat(text, "\n");
}

std::vector<std::string> DescribeAddresses(
    const std::vector<uint64_t>& addresses) {
  std::vector<std::string> words(addresses.size(), "?");
  absl::StatusOr<ForkedChild> child =
      ForkedChild::Fork({.name = "symbols", .may_have_threads = true},
                        [&](const Reporter& reporter) {
                          for (uint64_t address : addresses) {
                            reporter.Fail(Describe(address));
                          }
                        });
  if (!child.ok() || !child->Wait(Deadline::After(kPatience)).ok()) {
    return words;
  }
  const std::vector<std::string>& said = child->report().failures;
  std::copy_n(said.begin(), std::min(said.size(), words.size()), words.begin());
  return words;
}

}  // namespace tenon
