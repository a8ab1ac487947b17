// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FailSystemCalls: makes each system call of a piece of code fail, one by one,
// with each errno, and checks that nothing leaks and that the next attempt
// succeeds.
//
//   if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
//   FaultScenario scenario;
//   scenario.name = "create";
//   scenario.body = [] {
//     return Segment::CreateSharedWritable(4096).status();
//   };
//   scenario.faults = {{.call = "memfd_create", .error = EMFILE},
//                      {.call = "ftruncate", .error = EINTR}};
//   TENON_ASSERT_OK_AND_ASSIGN(FaultReport report, FailSystemCalls(scenario));
//   EXPECT_TRUE(report.ok()) << report.ToString();

#ifndef TENON_SHM_TESTING_TRACE_SYSCALL_FAILER_H_
#define TENON_SHM_TESTING_TRACE_SYSCALL_FAILER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/testing/trace/fault_report.h"

namespace tenon {

struct FaultScenario {
  std::string name;
  // In the child, before anything else. May be empty.
  std::function<void()> prepare;
  // The code under test. Called three times in each child: once before, so that
  // one-time state exists; once with the fault; and once more, which must
  // succeed again. It must release everything that it creates. Faults apply to
  // the main thread only.
  std::function<absl::Status()> body;
  // Checks the result of `body` under the fault, in the child. May be empty:
  // then any status is accepted, but no crash, hang or leak.
  std::function<absl::Status(const SyscallFault& fault,
                             const absl::Status& outcome)>
      check;
  std::vector<SyscallFault> faults;
  // Prefix of the names in /dev/shm that the census counts. Empty: none.
  std::string shm_prefix;
  absl::Duration watchdog = absl::Seconds(20);  // Of each child.
  size_t max_failures = 10;                     // The run stops at this number.
};

// For each fault: n = 1, 2, ..., until the body makes no n-th such call. Each n
// runs in a separate child, in which the census after the fault, and after the
// next attempt, must equal the one before. Blocks: about 1 ms a run and 40 us
// for each system call of the body.
// Errors: CanTrace()'s; kInvalidArgument for an unknown call.
absl::StatusOr<FaultReport> FailSystemCalls(const FaultScenario& scenario);

// The number of each system call in `body`, counted in a forked child.
// Errors: CanTrace()'s; kAborted if the child fails.
absl::StatusOr<std::map<std::string, size_t>> CountSyscalls(
    const std::function<void()>& body);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_SYSCALL_FAILER_H_
