// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StepReport: the results of stepping through a region, as values and in words.
//
//   steps of 'record write': 23 instructions, 0 system calls; every position:
//   24 of them, 0 failures; 96 stops, 9ms

#ifndef TENON_SHM_TESTING_TRACE_STEP_REPORT_H_
#define TENON_SHM_TESTING_TRACE_STEP_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tenon {

struct StepFailure {
  uint64_t index = 0;    // Instructions of the region that had been executed.
  uint64_t address = 0;  // Of the next one.
  std::string where;     // function, module and offset of it.
  std::string what;
};

struct StepReport {
  // No failure, and no position missed.
  bool ok() const;
  std::string ToString() const;

  std::string scenario;
  std::string selection;      // "every position", "one position in 7", ...
  uint64_t instructions = 0;  // In the region.
  uint64_t syscalls = 0;      // Of these.
  // Positions at which the victim was killed, or paused.
  uint64_t positions = 0;
  // Positions that differed from the first run, because the victim took another
  // path; they were reached by steps instead.
  uint64_t diverged = 0;
  uint64_t missed = 0;  // Of these: the region ended before.
  uint64_t stops = 0;   // Steps and breakpoints, of all victims.
  bool given_up = false;
  absl::Duration time;
  std::vector<StepFailure> failures;
};

// "tenon::Record::Write() (record_test+0x1a2b)" for each address: the function,
// and module and offset for addr2line. In a forked child, because symbol lookup
// leaves files open.
std::vector<std::string> DescribeAddresses(
    const std::vector<uint64_t>& addresses);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_STEP_REPORT_H_
