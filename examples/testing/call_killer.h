// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KillAtEachCall: runs a program and what it starts again and again, and kills
// each time another process of them, where it enters or leaves a system call.
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
  // Of each run; then all are killed, which is a failure.
  absl::Duration watchdog = absl::Seconds(30);
};

struct CallKillReport {
  uint64_t calls = 0;  // Entries and exits of a run in which nobody is killed.
  uint64_t kills = 0;
  // The longest that others lived on after a kill.
  absl::Duration longest;
  std::vector<std::string> failures;

  std::string ToString() const;
};

// Kills until the program has made fewer calls than there are to be waited for.
// Fails a run if somebody lives on beyond the watchdog, ends by another signal
// than SIGKILL, SIGTERM or SIGPIPE, or if it is the program itself with another
// code than 0 and 1, or 137, which is how a shell says that another was killed.
// Blocks; the calling process gets orphans as its children and must have no
// others. From one thread, with nothing else going on.
CallKillReport KillAtEachCall(const std::vector<std::string>& arguments,
                              const CallKillOptions& options);

}  // namespace tenon

#endif  // TENON_EXAMPLES_TESTING_CALL_KILLER_H_
