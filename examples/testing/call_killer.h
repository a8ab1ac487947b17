// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KillAtEachCall: runs a program and its children repeatedly, and kills a
// different process each time, at the entry or exit of a system call.
//
//   if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
//   const CallKillReport report =
//       KillAtEachCall({"examples/broadcast"}, {.stride = 50});
//   EXPECT_THAT(report.failures, IsEmpty()) << report.ToString();

#ifndef TENON_EXAMPLES_TESTING_CALL_KILLER_H_
#define TENON_EXAMPLES_TESTING_CALL_KILLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tenon {

struct CallKillOptions {
  // Which entries and exits, of all that the processes make together.
  uint64_t first = 0;
  uint64_t stride = 1;
  // For each run; then all are killed, which is a failure.
  absl::Duration watchdog = absl::Seconds(30);
};

struct CallKillReport {
  uint64_t calls = 0;  // Entries and exits of a run without a kill.
  uint64_t runs = 0;   // One for each position of a kill.
  // Fewer than runs if a run ended before its position: a program that spins or
  // polls makes another number of calls in each run.
  uint64_t kills = 0;
  // The longest time that survivors lived on after a kill.
  absl::Duration longest;
  std::vector<std::string> failures;

  std::string ToString() const;
};

// Kills at options.first and after each further stride, one run for each, up to
// the number of calls of a run without a kill. A run fails if a survivor lives
// beyond the watchdog, ends by another signal than SIGKILL, SIGTERM or SIGPIPE,
// or if the program itself ends with another code than 0 and 1, or 137, by
// which a shell reports a killed process. Blocks; orphans become children of
// the calling process, which must have no other children. Call it from one
// thread, with no other activity.
CallKillReport KillAtEachCall(const std::vector<std::string>& arguments,
                              const CallKillOptions& options);

}  // namespace tenon

#endif  // TENON_EXAMPLES_TESTING_CALL_KILLER_H_
