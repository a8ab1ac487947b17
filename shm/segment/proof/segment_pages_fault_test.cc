// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Failures of the system calls by which segments get pages, of a node, huge, or
// many: see segment_fault_testing.h.

#include <errno.h>

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/proof/segment_fault_testing.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/syscall_failer.h"

namespace tenon {
namespace {

constexpr size_t kHuge = size_t{2} << 20;

TEST_F(SegmentFaultTest, OfANumaNodeAndPrefaulted) {
  SegmentOptions options = Options(SharingStrategy::kFileDescriptor);
  options.numa_node = 0;
  options.prefault = true;
  const auto body = [&] {
    return Segment::CreateOwnerWritten(kSize, options).status();
  };
  if (const absl::Status can = body(); !can.ok()) GTEST_SKIP() << can;
  FaultScenario scenario = Scenario("node, prefaulted", body);
  scenario.check = [](const SyscallFault& fault, const absl::Status& outcome) {
    // Older kernels prefault in another way. A missing node is another cause of
    // failure: if mbind() reports it, files are read for the nodes.
    if (fault.call == "madvise" && fault.error == EINVAL) {
      EXPECT_THAT(outcome, IsOk());
      return absl::OkStatus();
    }
    return CheckOutcome(fault, outcome);
  };
  Run(scenario,
      Faults({"memfd_create"}, {EMFILE}) + AllocationFaults() +
          Faults({"mbind"}, {EINVAL, EPERM, ENOSYS, ENOMEM, EIO}) +
          Faults({"madvise"}, {EINTR, EINVAL, ENOMEM, EFAULT, EHWPOISON}) +
          Faults({"fcntl"}, {EPERM}) + CloseFaults());
}

// The pages are joined, or the error names the reason.
TEST_F(SegmentFaultTest, RequiredHugePages) {
  SegmentOptions options = Options(SharingStrategy::kFileDescriptor);
  options.huge_pages = HugePages::kRequire;
  const auto body = [&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const Segment segment,
                           Segment::CreateSharedWritable(kHuge, options));
    return segment.MapWritable().status();
  };
  if (const absl::Status can = body(); !can.ok()) GTEST_SKIP() << can;
  FaultScenario scenario = Scenario("huge pages", body);
  scenario.check = [](const SyscallFault& fault, const absl::Status& outcome) {
    if (fault.call != "madvise") return CheckOutcome(fault, outcome);
    // A busy page is retried.
    if (fault.error == EAGAIN && !fault.persistent) {
      EXPECT_THAT(outcome, IsOk());
    } else if (fault.error == ENOMEM || fault.error == EBUSY) {
      EXPECT_TRUE(absl::IsResourceExhausted(outcome)) << outcome;
    } else if (fault.error == EINVAL) {
      EXPECT_TRUE(absl::IsFailedPrecondition(outcome)) << outcome;
    } else {
      EXPECT_FALSE(outcome.ok());
    }
    return absl::OkStatus();
  };
  Run(scenario,
      Faults({"memfd_create"}, {EMFILE}) + AllocationFaults() +
          Faults({"madvise"}, {EAGAIN, ENOMEM, EBUSY, EINVAL, EIO}) +
          std::vector<SyscallFault>{
              {.call = "madvise", .error = EAGAIN, .persistent = true}} +
          Faults({"fcntl"}, {EPERM}),
      {"close"});
}

// Whatever call fails, a segment is created, unless a small one fails too.
TEST_F(SegmentFaultTest, TriedHugePages) {
  SegmentOptions options = Options(SharingStrategy::kFileDescriptor);
  options.huge_pages = HugePages::kTry;
  const auto body = [&] {
    return Segment::CreateOwnerWritten(kHuge, options).status();
  };
  FaultScenario scenario = Scenario("huge pages, tried", body);
  scenario.check = [](const SyscallFault& fault, const absl::Status& outcome) {
    if (fault.call == "madvise" || fault.call == "memfd_create") {
      EXPECT_THAT(outcome, IsOk());
    }
    return absl::OkStatus();
  };
  // The other calls depend on whether a pool exists.
  Run(scenario,
      Faults({"memfd_create"}, {EINVAL}) + Faults({"mmap"}, {ENOMEM, EACCES}) +
          Faults({"fcntl"}, {EPERM, EBUSY}) + CloseFaults() +
          Faults({"ftruncate"}, {EINTR, EINVAL, ENOMEM, EFBIG, EPERM}),
      {"fallocate", "madvise", "openat", "read", "newfstatat", "fstat"});
}

absl::Status CreateLarge(const SegmentOptions& options) {
  return Segment::CreateSharedWritable((size_t{16} << 20) + kSize, options)
      .status();
}

TEST_F(SegmentFaultTest, CreateLargeMemfd) {
  Run(Scenario("large memfd",
               [&] {
                 return CreateLarge(Options(SharingStrategy::kFileDescriptor));
               }),
      Faults({"fallocate"}, {EINTR, ENOSPC, ENOMEM}) +
          Faults({"memfd_create"}, {EMFILE}) + Faults({"fstatfs"}, {EIO}) +
          Faults({"fcntl"}, {EPERM}),
      {"openat", "read", "close"});
}

// Above 16 MiB the free memory is checked first. If files cannot be read, the
// check is weaker, but no call fails.
TEST_F(SegmentFaultTest, LookForMemory) {
  FaultScenario scenario = Scenario("look for memory", [&] {
    return CreateLarge(Options(SharingStrategy::kFileDescriptor));
  });
  scenario.check = [](const SyscallFault&, const absl::Status& outcome) {
    EXPECT_THAT(outcome, IsOk());
    return absl::OkStatus();
  };
  Run(scenario,
      Faults({"openat"}, {ENOENT, EMFILE}) + Faults({"read"}, {EIO, EINTR}) +
          CloseFaults(),
      {"fallocate", "memfd_create", "fstatfs", "fcntl"});
}

}  // namespace
}  // namespace tenon
