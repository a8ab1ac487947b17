// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Checks of kernel features: each makes the calls that Tenon makes, so that a
// container that forbids them is detected like an old kernel.
//
// Each check has a probe, which makes the calls, and a pure function that
// interprets the result.

#ifndef TENON_TOOLS_DOCTOR_KERNEL_CHECKS_H_
#define TENON_TOOLS_DOCTOR_KERNEL_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/process/process_identity.h"
#include "tenon/tools/doctor/finding.h"

namespace tenon::tools {

// The kernel's release, "6.12.3-amd64", compared with the oldest supported one,
// with which the tests run (tools/old_kernel).
std::string ProbeKernel();
Finding CheckKernel(const std::string& release);

// Opens a pidfd of this process and sends signal 0.
absl::Status ProbePidFd();
Finding CheckPidFd(const absl::Status& result);

// Creates a memfd.
struct MemfdFacts {
  absl::Status made;
  std::optional<uint64_t> noexec;  // vm.memfd_noexec, from Linux 6.3 on.
};
MemfdFacts ProbeMemfd();
Finding CheckMemfd(const MemfdFacts& facts);

// Seals a segment, then tries the operations that the seals must prevent.
absl::Status ProbeSeals();
Finding CheckSeals(const absl::Status& result);

// Creates and touches a column of the ledger, 1 GiB of addresses.
struct ControlMemoryFacts {
  absl::Status made;
  std::optional<uint64_t> overcommit;  // vm.overcommit_memory.
};
ControlMemoryFacts ProbeControlMemory();
Finding CheckControlMemory(const ControlMemoryFacts& facts);

// Sends a descriptor through a socket.
absl::Status ProbePassingDescriptors();
Finding CheckPassingDescriptors(const absl::Status& result);

// errno of requesting the peer's pidfd of a socket (SO_PEERPIDFD).
int ProbePeerPidFd();
Finding CheckPeerPidFd(int error);

// Compares two pidfds of this process.
absl::StatusOr<SameProcess> ProbeIdentity();
Finding CheckIdentity(const absl::StatusOr<SameProcess>& same);

// Lists a child's open files, like `tenon ps` and `tenon mem`.
struct LookingFacts {
  int error = 0;                         // errno.
  std::optional<uint64_t> ptrace_scope;  // Of Yama, if loaded.
};
LookingFacts ProbeLooking();
Finding CheckLooking(const LookingFacts& facts);

// The cost of reading the clock, and the kernel's clock source.
struct ClockFacts {
  uint64_t nanoseconds = 0;
  std::string source;
};
ClockFacts ProbeClock();
Finding CheckClock(const ClockFacts& facts);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_DOCTOR_KERNEL_CHECKS_H_
