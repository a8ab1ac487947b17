// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FailSystemCalls: lets each system call of a piece of code fail, one by one,
// with each errno, and checks that nothing leaks and that the next try works.
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
  // what is made once is made; once with the fault; and once more, which must
  // succeed again. What it makes is gone when it returns. Its calls of main
  // thread only.
  std::function<absl::Status()> body;
  // Looks at what `body` returned under the fault, in the child. May be empty:
  // then any status will do, but no crash, no hang and no leak.
  std::function<absl::Status(const SyscallFault& fault,
                             const absl::Status& outcome)>
      check;
  std::vector<SyscallFault> faults;
  // Names in /dev/shm that belong to the census. Empty: none.
  std::string shm_prefix;
  absl::Duration watchdog = absl::Seconds(20);  // Of each child.
  size_t max_failures = 10;                     // Then it is given up.
};

// For each fault: n = 1, 2, ..., until the body makes no n-th such call. Each n
// is a child of its own, in which the census after the fault, and after the
// next try, must be that before.
// Blocks: about 1 ms a run and 40 us for each system call of the body.
// Errors: what CanTrace() says; kInvalidArgument for an unknown call.
absl::StatusOr<FaultReport> FailSystemCalls(const FaultScenario& scenario);

// How often `body` makes each system call, counted in a forked child.
// Errors: what CanTrace() says; kAborted if the child does not end well.
absl::StatusOr<std::map<std::string, size_t>> CountSyscalls(
    const std::function<void()>& body);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_SYSCALL_FAILER_H_
