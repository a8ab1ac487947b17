// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Every system call that package shm makes, failed with every errno that its
// code names or that the kernel may give it: nothing leaks, the status tells
// what happened, and the next try works.

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <iostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/dtype.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/segment.h"
#include "tenon/shm/segment_options.h"
#include "tenon/shm/sharing_strategy.h"
#include "tenon/shm/shm_name.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/tensor.h"
#include "tenon/shm/tensor_handle.h"
#include "tenon/shm/tensor_importer.h"
#include "tenon/shm/testing/census.h"
#include "tenon/shm/testing/fault_report.h"
#include "tenon/shm/testing/syscall_failer.h"
#include "tenon/shm/testing/tracee.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

constexpr size_t kSize = 4096;

// Calls that cannot fail, whose failure nobody could act on, or that are the
// test's own.
const std::set<std::string> kSpared = {"munmap", "geteuid", "getpid",
                                       "clone",  "wait4",   "prlimit64"};

constexpr size_t kHuge = size_t{2} << 20;

// Calls that look at what somebody else gave; if that does not work it may also
// count as his fault.
const std::set<std::string> kLooks = {"fcntl", "waitid"};

// One name or the other, as the C library has it.
const std::set<std::string> kAliases = {"fstat", "newfstatat"};

std::vector<SyscallFault> Faults(const std::vector<std::string>& calls,
                                 const std::vector<int>& errors) {
  std::vector<SyscallFault> faults;
  for (const std::string& call : calls) {
    for (int error : errors) faults.push_back({.call = call, .error = error});
  }
  return faults;
}

std::vector<SyscallFault> operator+(std::vector<SyscallFault> a,
                                    const std::vector<SyscallFault>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Of making memory: the limits, and a signal.
std::vector<SyscallFault> AllocationFaults() {
  return Faults({"ftruncate"}, {EINTR, ENOMEM, EFBIG, EPERM, EINVAL}) +
         Faults({"fallocate"},
                {EINTR, ENOSPC, ENOMEM, EFBIG, EDQUOT, EPERM, EOPNOTSUPP}) +
         Faults({"mmap"}, {ENOMEM, EAGAIN, EACCES, EPERM, ENODEV, ENFILE});
}

std::vector<SyscallFault> CloseFaults() {
  return {{.call = "close", .error = EINTR, .executed = true},
          {.call = "close", .error = EIO, .executed = true}};
}

std::vector<SyscallFault> StatFaults() {
  return Faults({"newfstatat", "fstat"}, {ENOMEM, EOVERFLOW, EACCES});
}

bool IsLimit(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM ||
         error == ENOSPC || error == EFBIG || error == EDQUOT;
}

// What a fault may do to the outcome: the status names the errno, and limits
// are kResourceExhausted; signals do not matter.
absl::Status CheckOutcome(const SyscallFault& fault,
                          const absl::Status& outcome) {
  if (fault.error == EINTR || fault.executed) {
    EXPECT_THAT(outcome, IsOk());
    return absl::OkStatus();
  }
  // Older kernels do not know a flag; then it is done without.
  if (fault.call == "memfd_create" && fault.error == EINVAL &&
      !fault.persistent) {
    EXPECT_THAT(outcome, IsOk());
    return absl::OkStatus();
  }
  EXPECT_FALSE(outcome.ok());
  if (fault.error == ECHILD) {  // Said in words.
    EXPECT_EQ(outcome.code(), absl::StatusCode::kFailedPrecondition);
    return absl::OkStatus();
  }
  EXPECT_THAT(std::string(outcome.message()),
              testing::HasSubstr(strerrorname_np(fault.error)));
  if (kLooks.count(fault.call) == 0) {
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

  // All of `faults` happen, and no call is forgotten that is not in
  // `elsewhere`.
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

  absl::Status CreateLarge() const {
    return Segment::CreateSharedWritable(
               (size_t{16} << 20) + kSize,
               Options(SharingStrategy::kFileDescriptor))
        .status();
  }

  SegmentOptions Options(SharingStrategy strategy) const {
    return {.strategy = strategy, .name_prefix = prefix_};
  }

  const std::string prefix_ = UniqueShmPrefix();
};

TEST_F(SegmentFaultTest, CreateOwnerWrittenMemfd) {
  const auto body = [&] {
    return Segment::CreateOwnerWritten(
               kSize, Options(SharingStrategy::kFileDescriptor))
        .status();
  };
  Run(Scenario("owner-written memfd", body),
      Faults({"memfd_create"}, {EMFILE, ENFILE, ENOMEM, EINVAL}) +
          std::vector<SyscallFault>{
              {.call = "memfd_create", .error = EINVAL, .persistent = true}} +
          AllocationFaults() + Faults({"fcntl"}, {EPERM, EBUSY, EINVAL}) +
          CloseFaults());
}

TEST_F(SegmentFaultTest, CreateAndMapSharedMemfd) {
  const auto body = [&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(
        const Segment segment,
        Segment::CreateSharedWritable(
            kSize, Options(SharingStrategy::kFileDescriptor)));
    TENON_RETURN_IF_ERROR(segment.MapWritable().status());
    return segment.MapReadOnly().status();
  };
  Run(Scenario("shared memfd", body),
      Faults({"memfd_create"}, {EMFILE, ENFILE, ENOMEM}) + AllocationFaults() +
          Faults({"fcntl"}, {EPERM, EINVAL}) + CloseFaults());
}

// Of writing it: the limits, a signal, contents that are gone.
std::vector<SyscallFault> FillFaults() {
  return Faults({"ftruncate"}, {EINTR, ENOMEM, EFBIG}) +
         Faults({"pwrite64"},
                {EINTR, ENOSPC, ENOMEM, EFBIG, EDQUOT, EFAULT, EPERM, EIO});
}

TEST_F(SegmentFaultTest, CreateFilledMemfd) {
  const std::vector<std::byte> contents(kSize + 1, std::byte{1});
  for (SegmentKind kind :
       {SegmentKind::kOwnerWritten, SegmentKind::kSharedWritable}) {
    const auto body = [&] {
      return Segment::CreateFilled(contents, kind,
                                   Options(SharingStrategy::kFileDescriptor))
          .status();
    };
    Run(Scenario("filled memfd", body),
        Faults({"memfd_create"}, {EMFILE, ENFILE, ENOMEM, EINVAL}) +
            FillFaults() + Faults({"fcntl"}, {EPERM, EBUSY, EINVAL}) +
            CloseFaults());
  }
}

TEST_F(SegmentFaultTest, CreateFilledNamed) {
  const std::vector<std::byte> contents(kSize + 1, std::byte{1});
  const auto body = [&] {
    return Segment::CreateFilled(contents, SegmentKind::kSharedWritable,
                                 Options(SharingStrategy::kFileSystem))
        .status();
  };
  // The name is removed when the segment is, where a failure is ignored.
  Run(Scenario("filled named segment", body),
      Faults({"getrandom"}, {EINTR, ENOSYS}) +
          Faults({"openat"}, {EMFILE, ENFILE, ENOMEM, ENOSPC, EACCES, EEXIST}) +
          FillFaults() + Faults({"fchmod"}, {EPERM, EROFS}) + CloseFaults(),
      {"unlink"});
}

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
    // Older kernels prefault in another way. That there is no such node is
    // another reason to fail: it is looked for in files, if mbind() says so.
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

// The pages are joined, or it is said why they are not.
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
    // A busy page is tried again.
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

// Whatever of it fails, there is a segment, unless a small one fails too.
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
  // What else is called depends on whether there is a pool.
  Run(scenario,
      Faults({"memfd_create"}, {EINVAL}) + Faults({"mmap"}, {ENOMEM, EACCES}) +
          Faults({"fcntl"}, {EPERM, EBUSY}) + CloseFaults() +
          Faults({"ftruncate"}, {EINVAL, ENOMEM}),
      {"fallocate", "madvise", "openat", "read", "newfstatat", "fstat"});
}

// What is no memory may be a peer's file system, which may never answer.
TEST_F(SegmentFaultTest, AdoptAsksNothingOfWhatIsNoMemory) {
  for (const char* path : {"/dev/zero", "/proc/self/maps", "/"}) {
    for (int flags : {O_RDONLY, O_PATH}) {
      const UniqueFd other(open(path, flags | O_CLOEXEC));
      ASSERT_TRUE(other.valid()) << path;
      const auto calls = CountSyscalls([&] {
        UniqueFd copy(fcntl(other.get(), F_DUPFD_CLOEXEC, 0));
        EXPECT_FALSE(
            Segment::Adopt(std::move(copy), SegmentKind::kSharedWritable).ok());
      });
      ASSERT_THAT(calls, IsOk());
      // All else asks the kernel alone; a thread closes it.
      for (const char* call : {"fstat", "newfstatat", "statx", "fstatfs",
                               "read", "pread64", "lseek", "ioctl", "poll"}) {
        EXPECT_EQ(calls->count(call), 0u) << path << ": " << call;
      }
      EXPECT_GE(calls->count("readlink"), 1u);
    }
  }
}

TEST_F(SegmentFaultTest, AdoptMemfd) {
  const auto body = [&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(
        const Segment segment,
        Segment::CreateSharedWritable(
            kSize, Options(SharingStrategy::kFileDescriptor)));
    UniqueFd copy(dup(segment.fd()));
    if (!copy.valid()) return PosixError(errno, "dup", "segment");
    TENON_ASSIGN_OR_RETURN(
        const Segment adopted,
        Segment::Adopt(std::move(copy), SegmentKind::kSharedWritable));
    return adopted.MapWritable().status();
  };
  Run(Scenario("adopted memfd", body),
      Faults({"memfd_create", "dup"}, {EMFILE}) + AllocationFaults() +
          Faults({"fcntl"}, {EPERM, EINVAL, EBADF, ENOMEM}) + StatFaults() +
          CloseFaults(),
      {"readlink"});
}

TEST_F(SegmentFaultTest, CreateMapOpenAndUnlinkNamed) {
  const auto body = [&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(Segment segment,
                           Segment::CreateSharedWritable(
                               kSize, Options(SharingStrategy::kFileSystem)));
    TENON_RETURN_IF_ERROR(segment.MapWritable().status());
    TENON_ASSIGN_OR_RETURN(
        const Segment opened,
        Segment::Open(segment.name(), SegmentKind::kOwnerWritten));
    TENON_RETURN_IF_ERROR(opened.MapReadOnly().status());
    return segment.Unlink();
  };
  Run(Scenario("named segment", body),
      Faults({"getrandom"}, {EINTR, ENOSYS}) +
          Faults({"openat"}, {EMFILE, ENFILE, ENOMEM, ENOSPC, EACCES, EPERM,
                              EEXIST, ENOENT, ELOOP, ENXIO, EINVAL}) +
          AllocationFaults() + Faults({"fchmod"}, {EPERM, EROFS}) +
          StatFaults() + Faults({"fcntl"}, {EPERM, ENOMEM}) +
          Faults({"unlink"}, {EACCES, EROFS}) + CloseFaults());
}

TEST_F(SegmentFaultTest, ListAndRemoveNames) {
  const auto body = [&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(RemoveShmName(absl::StrCat(prefix_, "-none")));
    return ListShmNames(prefix_).status();
  };
  Run(Scenario("names", body),
      Faults({"unlink"}, {EACCES, EROFS}) +
          Faults({"openat"}, {EMFILE, ENFILE, EACCES}) + StatFaults() +
          Faults({"getdents64"}, {EIO, ENOMEM}) + CloseFaults());
}

TEST_F(SegmentFaultTest, CreateLargeMemfd) {
  Run(Scenario("large memfd", [&] { return CreateLarge(); }),
      Faults({"fallocate"}, {EINTR, ENOSPC, ENOMEM}) +
          Faults({"ftruncate"}, {EINTR}) + Faults({"memfd_create"}, {EMFILE}) +
          Faults({"fstatfs"}, {EIO}) + Faults({"fcntl"}, {EPERM}),
      {"openat", "read", "close"});
}

// Above 16 MiB there is first a look at what memory there is. If files cannot
// be read, less is known, but nothing fails.
TEST_F(SegmentFaultTest, LookForMemory) {
  FaultScenario scenario =
      Scenario("look for memory", [&] { return CreateLarge(); });
  scenario.check = [](const SyscallFault&, const absl::Status& outcome) {
    EXPECT_THAT(outcome, IsOk());
    return absl::OkStatus();
  };
  Run(scenario,
      Faults({"openat"}, {ENOENT, EMFILE}) + Faults({"read"}, {EIO, EINTR}) +
          CloseFaults(),
      {"fallocate", "ftruncate", "memfd_create", "fstatfs", "fcntl"});
}

// A tensor that is moved to shared memory, sent and received.
TEST_F(SegmentFaultTest, ShareExportAndImportTensor) {
  const auto body = [&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(Tensor tensor,
                           Tensor::Create(kDtypeOf<int32_t>, {8, 8}));
    TENON_RETURN_IF_ERROR(tensor.Fill(7));
    TENON_RETURN_IF_ERROR(
        tensor.Share(Options(SharingStrategy::kFileDescriptor)));
    TENON_ASSIGN_OR_RETURN(const ExportedTensor sent, Export(tensor));
    UniqueFd copy(dup(sent.fd));
    if (!copy.valid()) return PosixError(errno, "dup", "tensor");
    TensorImporter importer;
    TENON_ASSIGN_OR_RETURN(const Tensor received,
                           importer.Import(sent.handle, std::move(copy)));
    TENON_ASSIGN_OR_RETURN(const int32_t* last,
                           received.at<const int32_t>({7, 7}));
    EXPECT_EQ(*last, 7);
    return absl::OkStatus();
  };
  Run(Scenario("tensor", body),
      Faults({"memfd_create", "dup"}, {EMFILE}) + FillFaults() +
          Faults({"fcntl"}, {EPERM, EINVAL, ENOMEM}) + StatFaults() +
          Faults({"mmap"}, {ENOMEM, EAGAIN, EACCES}) + CloseFaults(),
      {"readlink"});
}

TEST_F(SegmentFaultTest, PidFdOfAChild) {
  const auto body = []() -> absl::Status {
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    absl::Status reaped;
    {
      const absl::StatusOr<PidFd> child = PidFd::Open(pid);
      reaped = child.status();
      if (reaped.ok()) reaped = child->SendSignal(0);
      if (reaped.ok()) {
        reaped = child->Reap(Deadline::After(absl::Seconds(10))).status();
      }
    }
    if (!reaped.ok()) waitpid(pid, nullptr, 0);
    return reaped;
  };
  Run(Scenario("pidfd", body),
      Faults({"pidfd_open"},
             {EMFILE, ENFILE, ENOMEM, ESRCH, EINVAL, ENOSYS, EPERM}) +
          Faults({"pidfd_send_signal"}, {ESRCH, EPERM, EINVAL, ENOSYS}) +
          Faults({"ppoll"}, {EINTR, ENOMEM, EINVAL}) +
          Faults({"waitid"}, {ECHILD, EINVAL}) + CloseFaults());
}

}  // namespace
}  // namespace tenon
