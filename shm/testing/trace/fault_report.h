// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FaultReport: what came of failing system calls, as values and as a table.
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

// What happens to the n-th call.
struct SyscallFault {
  std::string call;  // As the kernel names it: "openat", "newfstatat".
  int error = 0;     // The errno it fails with; 0: it does not fail.
  absl::Duration delay = absl::ZeroDuration();  // It comes later by this.
  // It is not executed, but fails at once; or, as close() does with EINTR, it
  // is, and says that it failed.
  bool executed = false;
  // Not the n-th call only, but all after it too. Not for EINTR, which is
  // retried for ever.
  bool persistent = false;
};

// "ftruncate EINTR".
std::string FaultInWords(const SyscallFault& fault);

struct FaultReport {
  struct Row {
    SyscallFault fault;
    size_t runs = 0;  // In which the call was made, and the fault happened.
    std::map<std::string, size_t> outcomes;  // Code of the status -> runs.
  };
  struct Failure {
    std::string where;  // "memfd_create, call 1, EMFILE"
    std::string what;
  };

  // Nothing failed, and some fault happened.
  bool ok() const;
  std::string ToString() const;

  std::string scenario;
  std::vector<Row> rows;  // In the order of the faults.
  // What the body calls when nothing fails, and which of it no fault is for.
  std::map<std::string, size_t> calls;
  std::vector<std::string> spared;
  size_t runs = 0;
  bool given_up = false;
  absl::Duration time;
  std::vector<Failure> failures;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_FAULT_REPORT_H_
