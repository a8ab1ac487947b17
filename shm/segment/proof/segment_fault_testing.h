// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SegmentFaultTest: makes each system call of a body fail, with every errno
// that the code names or that the kernel may return: nothing leaks, the status
// names the failure, and the next attempt succeeds.

#ifndef TENON_SHM_SEGMENT_PROOF_SEGMENT_FAULT_TESTING_H_
#define TENON_SHM_SEGMENT_PROOF_SEGMENT_FAULT_TESTING_H_

#include <errno.h>
#include <string.h>

#include <cstddef>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/fault_report.h"
#include "tenon/shm/testing/trace/syscall_failer.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {

inline constexpr size_t kSize = 4096;

// Calls that cannot fail, whose failure has no remedy, or that are the test's
// own.
inline const std::set<std::string> kSpared = {"munmap", "geteuid", "getpid",
                                              "clone",  "wait4",   "prlimit64"};

// Calls that inspect a peer's descriptor; their failure may also count as the
// peer's fault.
inline const std::set<std::string> kLooks = {"fcntl", "waitid"};

// Pairs of names, of which the C library uses one.
inline const std::set<std::string> kAliases = {"fstat", "newfstatat"};

inline std::vector<SyscallFault> Faults(const std::vector<std::string>& calls,
                                        const std::vector<int>& errors) {
  std::vector<SyscallFault> faults;
  for (const std::string& call : calls) {
    for (int error : errors) faults.push_back({.call = call, .error = error});
  }
  return faults;
}

inline std::vector<SyscallFault> operator+(std::vector<SyscallFault> a,
                                           const std::vector<SyscallFault>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Of creating memory: the limits, and a signal.
inline std::vector<SyscallFault> AllocationFaults() {
  return Faults({"fallocate"}, {EINTR, ENOSPC, ENOMEM, EFBIG, EDQUOT, EPERM,
                                EINVAL, EOPNOTSUPP}) +
         Faults({"mmap"}, {ENOMEM, EAGAIN, EACCES, EPERM, ENODEV, ENFILE});
}

inline std::vector<SyscallFault> CloseFaults() {
  return {{.call = "close", .error = EINTR, .executed = true},
          {.call = "close", .error = EIO, .executed = true}};
}

inline std::vector<SyscallFault> StatFaults() {
  return Faults({"newfstatat", "fstat"}, {ENOMEM, EOVERFLOW, EACCES});
}

inline bool IsLimit(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM ||
         error == ENOSPC || error == EFBIG || error == EDQUOT ||
         error == ENOLCK;
}

// Checks the outcome under a fault: the status names the errno, limits are
// kResourceExhausted, and signals have no effect.
inline absl::Status CheckOutcome(const SyscallFault& fault,
                                 const absl::Status& outcome) {
  if (fault.error == EINTR || fault.executed) {
    EXPECT_THAT(outcome, IsOk());
    return absl::OkStatus();
  }
  // Older kernels do not know a flag; the code then omits it.
  if (fault.call == "memfd_create" && fault.error == EINVAL &&
      !fault.persistent) {
    EXPECT_THAT(outcome, IsOk());
    return absl::OkStatus();
  }
  EXPECT_FALSE(outcome.ok());
  if (fault.error == ECHILD) {  // Described in words.
    EXPECT_EQ(outcome.code(), absl::StatusCode::kFailedPrecondition);
    return absl::OkStatus();
  }
  EXPECT_THAT(std::string(outcome.message()),
              testing::HasSubstr(strerrorname_np(fault.error)));
  // Of a peer's descriptor there is no lock.
  if (kLooks.count(fault.call) == 0 || fault.error == ENOLCK) {
    EXPECT_EQ(absl::IsResourceExhausted(outcome), IsLimit(fault.error))
        << outcome;
  }
  return absl::OkStatus();
}

class SegmentFaultTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  }

  FaultScenario Scenario(const std::string& name,
                         std::function<absl::Status()> body) {
    FaultScenario scenario;
    scenario.name = name;
    scenario.body = std::move(body);
    scenario.check = CheckOutcome;
    scenario.shm_prefix = prefix_;
    return scenario;
  }

  // All of `faults` happen, and every call without a fault is in `elsewhere`.
  void Run(FaultScenario scenario, std::vector<SyscallFault> faults,
           const std::set<std::string>& elsewhere = {}) {
    scenario.faults = std::move(faults);
    TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                               FailSystemCalls(scenario));
    std::cout << report.ToString();
    EXPECT_TRUE(report.ok()) << report.ToString();
    for (const FaultReport::Row& row : report.rows) {
      EXPECT_TRUE(row.runs > 0 || kAliases.count(row.fault.call) > 0)
          << FaultInWords(row.fault) << ": not called";
    }
    for (const std::string& call : report.spared) {
      EXPECT_EQ(kSpared.count(call) + elsewhere.count(call), 1u)
          << call << " was not failed";
    }
  }

  SegmentOptions Options(SharingStrategy strategy) const {
    return {.strategy = strategy, .name_prefix = prefix_};
  }

  const std::string prefix_ = UniqueShmPrefix();
};

// Of writing it: the limits, a signal, contents that are gone.
inline std::vector<SyscallFault> FillFaults() {
  return Faults({"pwrite64"},
                {EINTR, ENOSPC, ENOMEM, EFBIG, EDQUOT, EFAULT, EPERM, EIO});
}

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_PROOF_SEGMENT_FAULT_TESTING_H_
