// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Failures of every system call of package shm: see segment_fault_testing.h.
// Calls for pages: segment_pages_fault_test.cc.

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/proof/segment_fault_testing.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/syscall_failer.h"

namespace tenon {
namespace {

// A new tensor of those bytes, or of as many zeros.
absl::StatusOr<Tensor> Create(bool filled,
                              const std::vector<std::byte>& bytes) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(bytes.size())};
  const SharedTensorOptions options = {
      .segment = {.strategy = SharingStrategy::kFileDescriptor}};
  return filled ? Tensor::CreateSharedFrom(kDtypeOf<uint8_t>, shape, bytes,
                                           options)
                : Tensor::CreateShared(kDtypeOf<uint8_t>, shape, options);
}

// The system calls of `body`. The C library uses one of two names.
absl::StatusOr<std::map<std::string, size_t>> CallsOf(
    const std::function<void()>& body) {
  auto calls = CountSyscalls(body);
  if (!calls.ok()) return calls;
  calls->erase("brk");  // malloc()'s.
  if (auto stat = calls->extract("newfstatat")) {
    stat.key() = "fstat";
    calls->insert(std::move(stat));
  }
  return calls;
}

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
  // The name is removed in the segment's destructor, which ignores failure.
  Run(Scenario("filled named segment", body),
      Faults({"getrandom"}, {EINTR, ENOSYS}) +
          Faults({"openat"}, {EMFILE, ENFILE, ENOMEM, ENOSPC, EACCES, EEXIST}) +
          Faults({"fcntl"}, {ENOLCK, EACCES, EINVAL}) + StatFaults() +
          FillFaults() + Faults({"fchmod"}, {EPERM, EROFS}) + CloseFaults(),
      {"unlink"});
}

TEST_F(SegmentFaultTest, PublishAs) {
  const auto body = [&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(Segment segment,
                           Segment::CreateSharedWritable(
                               kSize, Options(SharingStrategy::kFileSystem)));
    return segment.PublishAs(prefix_ + ".chosen");
  };
  // Creation is the test above; the name is removed in the destructor.
  Run(Scenario("published segment", body),
      Faults({"renameat2"}, {EACCES, EROFS, EINVAL, ENOMEM}) + CloseFaults(),
      {"fallocate", "fchmod", "fcntl", "fstat", "getrandom", "newfstatat",
       "openat", "unlink", "unlinkat"});
}

// A descriptor that is not memory may be of a peer's file system, which may
// never answer.
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
      // All other calls query only the kernel; a thread closes it.
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
          StatFaults() + Faults({"fcntl"}, {EPERM, EACCES, ENOMEM}) +
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

TEST_F(SegmentFaultTest, CreateTensorFromBytes) {
  const std::vector<std::byte> bytes(kSize + 1, std::byte{1});
  for (const SegmentKind kind :
       {SegmentKind::kOwnerWritten, SegmentKind::kSharedWritable}) {
    for (const SharingStrategy strategy : AllSharingStrategies()) {
      const bool named = strategy == SharingStrategy::kFileSystem;
      const auto body = [&] {
        return Tensor::CreateSharedFrom(
                   kDtypeOf<uint8_t>, {kSize + 1}, bytes,
                   {.kind = kind, .segment = Options(strategy)})
            .status();
      };
      // A name is removed in a destructor, which ignores failure.
      Run(Scenario("tensor from bytes", body),
          FillFaults() + StatFaults() +
              Faults({"mmap"}, {ENOMEM, EAGAIN, EACCES}) + CloseFaults() +
              (named ? Faults({"openat"}, {EMFILE, ENFILE, EEXIST}) +
                           Faults({"fcntl"}, {ENOLCK}) +
                           Faults({"fchmod"}, {EPERM})
                     : Faults({"memfd_create"}, {EMFILE, ENFILE}) +
                           Faults({"fcntl"}, {EPERM, EBUSY})),
          {"unlink", "getrandom"});
    }
  }
}

// docs/segments.md has the reason for each of them.
TEST_F(SegmentFaultTest, AFreshTensorTakesTheseCallsAndNoOthers) {
  using Calls = std::map<std::string, size_t>;
  const std::vector<std::byte> bytes(kSize, std::byte{1});
  const Calls common = {{"memfd_create", 1}, {"prlimit64", 1}, {"fcntl", 1},
                        {"fstat", 1},        {"mmap", 1},      {"munmap", 1},
                        {"close", 1}};
  for (const bool filled : {false, true}) {
    Calls want = common;
    want[filled ? "pwrite64" : "fallocate"] = 1;
    EXPECT_THAT(CallsOf([&] { EXPECT_THAT(Create(filled, bytes), IsOk()); }),
                IsOkAndHolds(want));
  }
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor sent, Create(true, bytes));
  TENON_ASSERT_OK_AND_ASSIGN(const ExportedTensor exported, Export(sent));
  EXPECT_THAT(CallsOf([&] {
                TensorImporter importer;
                UniqueFd fd(dup(exported.fd));
                EXPECT_THAT(importer.Import(exported.handle, std::move(fd)),
                            IsOk());
              }),
              IsOkAndHolds(Calls{{"dup", 1},
                                 {"fcntl", 2},
                                 {"fstat", 1},
                                 {"mmap", 1},
                                 {"munmap", 1},
                                 {"close", 1}}));
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
