// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Checks of what Tenon asks of the kernel: each makes the calls that Tenon
// makes, so that a container that forbids them is noticed as an old kernel is.
//
// Of each check there is a probe, which makes the calls, and a function that
// says what the result means, which is pure.

#ifndef TENON_TOOLS_DOCTOR_KERNEL_CHECKS_H_
#define TENON_TOOLS_DOCTOR_KERNEL_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/process_identity.h"
#include "tenon/tools/doctor/finding.h"

namespace tenon::tools {

// The kernel's release, "6.12.3-amd64", against the oldest supported one, for
// which the tests run (tools/old_kernel).
std::string ProbeKernel();
Finding CheckKernel(const std::string& release);

// A pidfd of this process is opened and signalled with 0.
absl::Status ProbePidFd();
Finding CheckPidFd(const absl::Status& result);

// A memfd is made.
struct MemfdFacts {
  absl::Status made;
  std::optional<uint64_t> noexec;  // vm.memfd_noexec, from Linux 6.3 on.
};
MemfdFacts ProbeMemfd();
Finding CheckMemfd(const MemfdFacts& facts);

// A segment is sealed; then what the seals are to prevent is tried.
absl::Status ProbeSeals();
Finding CheckSeals(const absl::Status& result);

// A column of the ledger, 1 GiB of addresses, is made and touched.
struct ControlMemoryFacts {
  absl::Status made;
  std::optional<uint64_t> overcommit;  // vm.overcommit_memory.
};
ControlMemoryFacts ProbeControlMemory();
Finding CheckControlMemory(const ControlMemoryFacts& facts);

// A descriptor goes through a socket.
absl::Status ProbePassingDescriptors();
Finding CheckPassingDescriptors(const absl::Status& result);

// errno of asking a socket for its peer's pidfd (SO_PEERPIDFD).
int ProbePeerPidFd();
Finding CheckPeerPidFd(int error);

// Two pidfds of this process are compared.
absl::StatusOr<SameProcess> ProbeIdentity();
Finding CheckIdentity(const absl::StatusOr<SameProcess>& same);

// A child's open files are listed, as `tenon ps` and `tenon mem` do.
struct LookingFacts {
  int error = 0;                         // errno.
  std::optional<uint64_t> ptrace_scope;  // Of Yama, where that is loaded.
};
LookingFacts ProbeLooking();
Finding CheckLooking(const LookingFacts& facts);

// What it takes to ask for the time, and where the kernel gets it from.
struct ClockFacts {
  uint64_t nanoseconds = 0;
  std::string source;
};
ClockFacts ProbeClock();
Finding CheckClock(const ClockFacts& facts);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_DOCTOR_KERNEL_CHECKS_H_
