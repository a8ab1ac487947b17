// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FaultReport: the results of failing system calls, as values and as a table.
//
//   faults of 'create': 2 faults, 5 runs, 0 failures, 12ms
//     memfd_create EMFILE                  RESOURCE_EXHAUSTED x1
//     ftruncate EINTR                      OK x1
//     called, never failed: fallocate, fcntl

#ifndef TENON_SHM_TESTING_TRACE_FAULT_REPORT_H_
#define TENON_SHM_TESTING_TRACE_FAULT_REPORT_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tenon {

// The fault of the n-th call.
struct SyscallFault {
  std::string call;  // As the kernel names it: "openat", "newfstatat".
  int error = 0;     // Its errno; 0: it does not fail.
  absl::Duration delay = absl::ZeroDuration();  // The call is delayed by this.
  // False: the call is not executed, but fails at once. True: it is executed,
  // and reports failure, as close() does with EINTR.
  bool executed = false;
  // Applies to the n-th call and all after it. Not for EINTR, which is retried
  // for ever.
  bool persistent = false;
};

// "ftruncate EINTR".
std::string FaultInWords(const SyscallFault& fault);

struct FaultReport {
  struct Row {
    SyscallFault fault;
    size_t runs = 0;  // Runs in which the call was made and the fault happened.
    std::map<std::string, size_t> outcomes;  // Code of the status -> runs.
  };
  struct Failure {
    std::string where;  // "memfd_create, call 1, EMFILE"
    std::string what;
  };

  // No failure, and at least one fault happened.
  bool ok() const;
  std::string ToString() const;

  std::string scenario;
  std::vector<Row> rows;  // In the order of the faults.
  // The calls of the body without faults, and those for which no fault is
  // defined.
  std::map<std::string, size_t> calls;
  std::vector<std::string> spared;
  size_t runs = 0;
  bool given_up = false;
  absl::Duration time;
  std::vector<Failure> failures;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_FAULT_REPORT_H_
