// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/posix_error.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

rlimit GetLimit(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit;
  EXPECT_EQ(getrlimit(resource, &limit), 0);
  return limit;
}

void SetLimit(decltype(RLIMIT_NOFILE) resource, rlim_t soft, rlim_t hard) {
  const rlimit limit = {soft, hard};
  ASSERT_EQ(setrlimit(resource, &limit), 0);
}

TEST(PosixErrorTest, HasCallObjectWordsAndName) {
  EXPECT_EQ(PosixError(ENOENT, "open", "file 'x'").ToString(),
            "NOT_FOUND: open(file 'x'): No such file or directory [ENOENT]");
  EXPECT_EQ(PosixError(EBADF, "fstat", "").message(),
            "fstat(): Bad file descriptor [EBADF]");
}

TEST(PosixErrorTest, UnknownErrorsAreShownByNumber) {
  EXPECT_THAT(
      PosixError(7777, "ioctl", "x"),
      StatusIs(absl::StatusCode::kUnknown, "ioctl(x): unknown error [7777]"));
}

TEST(PosixErrorTest, CodesAreThoseOfAbseilButForLimits) {
  const std::set<int> limits = {EDQUOT, EFBIG, ENOLCK, ETOOMANYREFS};
  for (int error = 1; error < 200; ++error) {
    const absl::StatusCode want = limits.contains(error)
                                      ? absl::StatusCode::kResourceExhausted
                                      : absl::ErrnoToStatusCode(error);
    EXPECT_THAT(PosixError(error, "call", "object"), StatusIs(want)) << error;
  }
}

TEST(PosixErrorTest, DescriptorLimitTellsHowToRaiseIt) {
  EXPECT_TRUE(PassesInChild([] {
    SetLimit(RLIMIT_NOFILE, 100, 200);
    EXPECT_THAT(
        PosixError(EMFILE, "memfd_create", "segment 'weights'")
            .ToString(absl::StatusToStringMode::kWithNoExtraData),
        "RESOURCE_EXHAUSTED: memfd_create(segment 'weights'): Too many open "
        "files [EMFILE]; files this process may open: 100 (RLIMIT_NOFILE; "
        "hard limit 200); raise it: ulimit -n 200, or use fewer: tensors in an "
        "arena share one descriptor, those of the file_system strategy have "
        "none");
  }));
}

TEST(PosixErrorTest, LackOfDescriptorsIsAPropertyAndNoText) {
  for (const int error : {EMFILE, ENFILE}) {
    const absl::Status status = PosixError(error, "open", "x");
    EXPECT_TRUE(IsLackOfDescriptors(status));
    EXPECT_FALSE(
        IsLackOfDescriptors(absl::Status(status.code(), status.message())));
  }
  EXPECT_FALSE(IsLackOfDescriptors(PosixError(ENOMEM, "open", "[EMFILE]")));
  EXPECT_FALSE(IsLackOfDescriptors(PosixError(ETOOMANYREFS, "sendmsg", "x")));
  EXPECT_FALSE(IsLackOfDescriptors(absl::OkStatus()));
}

TEST(PosixErrorTest, LimitThatCannotBeRaisedSendsToRoot) {
  EXPECT_TRUE(PassesInChild([] {
    SetLimit(RLIMIT_NOFILE, 100, 100);
    EXPECT_THAT(std::string(PosixError(EMFILE, "socket", "").message()),
                AllOf(HasSubstr("raise it as root: ulimit -n <more>, or"),
                      HasSubstr("in an arena"), HasSubstr("file_system")));
  }));
}

TEST(PosixErrorTest, DescriptorsInFlightAreLimitedPerUser) {
  const rlim_t limit = GetLimit(RLIMIT_NOFILE).rlim_cur;
  EXPECT_THAT(
      PosixError(ETOOMANYREFS, "sendmsg", "channel"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("in flight"), HasSubstr("this user"),
                     HasSubstr(absl::StrCat(limit)), HasSubstr("ulimit -n"))));
}

TEST(PosixErrorTest, FilesOfTheMachine) {
  EXPECT_THAT(std::string(PosixError(ENFILE, "open", "x").message()),
              MatchesRegex(".*may have open: [0-9]+ \\(fs.file-max\\); raise "
                           "it: sysctl -w fs.file-max=<more>"));
}

TEST(PosixErrorTest, MappingsAreLimitedInNumber) {
  EXPECT_THAT(std::string(PosixError(ENOMEM, "mmap", "x").message()),
              AllOf(MatchesRegex(".* have: [0-9]+ \\(vm.max_map_count\\).*"),
                    HasSubstr("sysctl -w vm.max_map_count=<more>")));
}

TEST(PosixErrorTest, AddressSpaceIsNamedFirstIfItIsLimited) {
  if (GetLimit(RLIMIT_AS).rlim_cur != RLIM_INFINITY) {
    GTEST_SKIP() << "RLIMIT_AS is set for the tests";
  }
  EXPECT_THAT(std::string(PosixError(ENOMEM, "mmap", "x").message()),
              Not(HasSubstr("RLIMIT_AS")));
  EXPECT_TRUE(PassesInChild([] {
    const rlim_t huge = rlim_t{1} << 60;
    SetLimit(RLIMIT_AS, huge, huge);
    EXPECT_THAT(std::string(PosixError(ENOMEM, "mmap", "x").message()),
                HasSubstr(absl::StrCat(
                    "[ENOMEM]; address space this process may use: ", huge,
                    " bytes (1024.0 PiB), RLIMIT_AS; raise it: "
                    "ulimit -v unlimited; mappings that a process "
                    "may have: ")));
  }));
}

TEST(PosixErrorTest, FileSizeIsNamedOnlyIfLimited) {
  EXPECT_TRUE(PassesInChild([] {
    SetLimit(RLIMIT_FSIZE, 1 << 20, GetLimit(RLIMIT_FSIZE).rlim_max);
    EXPECT_THAT(
        PosixError(EFBIG, "ftruncate", "x"),
        StatusIs(absl::StatusCode::kResourceExhausted,
                 HasSubstr("1048576 bytes (1.0 MiB), RLIMIT_FSIZE; raise it: "
                           "ulimit -f unlimited")));
  }));
  if (GetLimit(RLIMIT_FSIZE).rlim_cur == RLIM_INFINITY) {
    EXPECT_EQ(PosixError(EFBIG, "ftruncate", "x").message(),
              "ftruncate(x): File too large [EFBIG]");
  }
}

TEST(PosixErrorTest, NoSpaceIsToldFromWhereItHappened) {
  EXPECT_THAT(
      std::string(
          PosixError(ENOSPC, "fallocate", "'memfd' in /dev/shm").message()),
      AllOf(HasSubstr("/dev/shm has "), HasSubstr("inodes"),
            HasSubstr("file_descriptor strategy")));
  EXPECT_THAT(
      std::string(
          PosixError(ENOSPC, "fallocate", "'shm' in a memfd").message()),
      AllOf(HasSubstr("out of memory: "), HasSubstr(" are available ("),
            Not(HasSubstr("/dev/shm"))));
  EXPECT_EQ(PosixError(ENOSPC, "write", "log").message(),
            "write(log): No space left on device [ENOSPC]");
}

TEST(PosixErrorTest, LimitThatCannotBeReadIsUnknown) {
  EXPECT_TRUE(PassesInChild([] {
    const rlimit before = GetLimit(RLIMIT_NOFILE);
    SetLimit(RLIMIT_NOFILE, 0, before.rlim_max);
    const absl::Status status = PosixError(ENFILE, "open", "x");
    SetLimit(RLIMIT_NOFILE, before.rlim_cur, before.rlim_max);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("unknown (fs.file-max)"));
  }));
}

TEST(PosixErrorTest, ShmThatCannotBeWrittenToTellsWhatToDo) {
  EXPECT_THAT(std::string(PosixError(EROFS, "shm_open", "/dev/shm").message()),
              AllOf(HasSubstr("mount -o remount,rw /dev/shm"),
                    HasSubstr("file_descriptor strategy")));
  EXPECT_EQ(PosixError(EROFS, "open", "log").message(),
            "open(log): Read-only file system [EROFS]");
  /// dev/shm exists here, so the name is missing.
  EXPECT_EQ(PosixError(ENOENT, "shm_open", "/dev/shm").message(),
            "shm_open(/dev/shm): No such file or directory [ENOENT]");
}

TEST(PosixErrorTest, ProcessesAreLimitedWhereProcessesAreMade) {
  EXPECT_THAT(std::string(PosixError(EAGAIN, "posix_spawn", "x").message()),
              AllOf(HasSubstr("RLIMIT_NPROC"), HasSubstr("ulimit -u")));
  EXPECT_EQ(PosixError(EAGAIN, "read", "pipe").message(),
            "read(pipe): Resource temporarily unavailable [EAGAIN]");
}

}  // namespace
}  // namespace tenon
