// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/segment_checks.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kPermissionDenied;
constexpr int kAllSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW |
                          F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;

UniqueFd MakeMemfdOf(off_t size, unsigned flags = MFD_ALLOW_SEALING) {
  UniqueFd fd(memfd_create("segment_checks_test", MFD_CLOEXEC | flags));
  if (fd.valid()) {
    EXPECT_EQ(ftruncate(fd.get(), size), 0);
  }
  return fd;
}

// A file on whatever disk the tests run on.
UniqueFd MakeDiskFile() {
  std::string path = testing::TempDir() + "/segment_checks_test.XXXXXX";
  UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  EXPECT_TRUE(fd.valid()) << path;
  unlink(path.c_str());
  EXPECT_EQ(ftruncate(fd.get(), 4096), 0);
  return fd;
}

TEST(CheckNamedMemoryTest, TakesMemoryOfThisUserAlone) {
  const UniqueFd fd = MakeMemfdOf(4097);
  ASSERT_EQ(fchmod(fd.get(), 0600), 0);
  TENON_ASSERT_OK_AND_ASSIGN(const CheckedMemory memory,
                             CheckNamedMemory(fd.get(), "x"));
  EXPECT_EQ(memory.size_bytes, 4097u);
  EXPECT_FALSE(memory.is_hugetlb);
}

TEST(CheckNamedMemoryTest, NothingIsNoSize) {
  const UniqueFd fd = MakeMemfdOf(0);
  ASSERT_EQ(fchmod(fd.get(), 0600), 0);
  EXPECT_THAT(CheckNamedMemory(fd.get(), "x"),
              StatusIs(kInvalidArgument, "x has 0 bytes"));
}

TEST(CheckNamedMemoryTest, SaysWhatItIsInstead) {
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  const UniqueFd reader(pipes[0]);
  const UniqueFd writer(pipes[1]);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UniqueFd device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  const UniqueFd directory(open("/dev/shm", O_DIRECTORY | O_CLOEXEC));
  const struct {
    int fd;
    const char* is;
  } cases[] = {
      {reader.get(), "segment 'x' is a pipe"},
      {writer.get(), "segment 'x' is a pipe"},
      {socket.get(), "segment 'x' is a socket"},
      {device.get(), "segment 'x' is a character device"},
      {directory.get(), "segment 'x' is a directory"},
      {-1, "segment 'x' is not an open file descriptor"},
      {1 << 20, "segment 'x' is not an open file descriptor"},
  };
  for (const auto& [fd, is] : cases) {
    EXPECT_THAT(CheckNamedMemory(fd, "segment 'x'"),
                StatusIs(kInvalidArgument, HasSubstr(is)));
  }
}

TEST(CheckNamedMemoryTest, NamesTheFileSystemOfOtherFiles) {
  const UniqueFd proc(open("/proc/self/status", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(CheckNamedMemory(proc.get(), "x"),
              StatusIs(kInvalidArgument, HasSubstr("0x9fa0")));
  const UniqueFd disk = MakeDiskFile();
  if (CheckNamedMemory(disk.get(), "x").ok()) {
    GTEST_SKIP() << testing::TempDir() << " is a tmpfs here";
  }
  EXPECT_THAT(CheckNamedMemory(disk.get(), "x"),
              StatusIs(kInvalidArgument,
                       AllOf(HasSubstr("of type 0x"), HasSubstr("tmpfs"))));
}

TEST(CheckSealsTest, WantsAllOfThem) {
  const UniqueFd fd = MakeMemfdOf(4096);
  EXPECT_THAT(CheckSeals(fd.get(), 0, "x"), IsOk());
  EXPECT_THAT(CheckSeals(fd.get(), F_SEAL_SHRINK, "x"),
              StatusIs(kFailedPrecondition));
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_THAT(CheckSeals(fd.get(), F_SEAL_SHRINK, "x"), IsOk());
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, kAllSeals), 0);
  EXPECT_THAT(CheckSeals(fd.get(), kAllSeals, "x"), IsOk());
}

TEST(CheckSealsTest, NamesThoseThatAreMissingAndNoOthers) {
  const UniqueFd fd = MakeMemfdOf(4096);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
  EXPECT_THAT(
      CheckSeals(fd.get(), kAllSeals, "segment 'x'"),
      StatusIs(
          kFailedPrecondition,
          AllOf(HasSubstr("segment 'x'"),
                HasSubstr("F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_FUTURE_WRITE"),
                Not(HasSubstr("F_SEAL_SHRINK")),
                Not(HasSubstr("F_SEAL_SEAL")))));
}

TEST(CheckSealsTest, SaysWhatHasNone) {
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  const UniqueFd reader(pipes[0]);
  const UniqueFd writer(pipes[1]);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const UniqueFd device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  const UniqueFd proc(open("/proc/meminfo", O_RDONLY | O_CLOEXEC));
  const std::pair<int, const char*> cases[] = {
      {reader.get(), "segment 'x' is 'pipe:["},
      {writer.get(), "segment 'x' is 'pipe:["},
      {socket.get(), "segment 'x' is 'socket:["},
      {device.get(), "segment 'x' is '/dev/zero', not memory"},
      {proc.get(), "segment 'x' is '/proc/meminfo', not memory"},
      {-1, "segment 'x' is not an open file descriptor"},
      {1 << 20, "segment 'x' is not an open file descriptor"},
  };
  for (const auto& [fd, is] : cases) {
    EXPECT_THAT(CheckSeals(fd, 0, "segment 'x'"),
                StatusIs(kInvalidArgument, HasSubstr(is)));
  }
}

TEST(CheckSealsTest, FilesOfADiskHaveNone) {
  // A tmpfs has one by default, against setting others.
  EXPECT_THAT(
      CheckSeals(MakeDiskFile().get(), F_SEAL_SHRINK, "x"),
      testing::AnyOf(StatusIs(kInvalidArgument, HasSubstr("not memory")),
                     StatusIs(kFailedPrecondition)));
}

TEST(CheckSealsTest, APathOfAPeersChoiceIsPrintable) {
  const std::string path =
      absl::StrCat(testing::TempDir(), "/segment_checks\n\x1b[2J", getpid());
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  const UniqueFd directory(
      open(path.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(rmdir(path.c_str()), 0);
  EXPECT_THAT(CheckSeals(directory.get(), 0, "x"),
              StatusIs(kInvalidArgument, HasSubstr("\\n\\x1b[2J")));
}

TEST(CheckSealsTest, ADescriptorThatIsOnlyAPathIsNoSegment) {
  const UniqueFd fd(open("/dev/shm", O_PATH | O_CLOEXEC));
  EXPECT_THAT(CheckSeals(fd.get(), 0, "x"),
              StatusIs(kFailedPrecondition, HasSubstr("F_GET_SEALS")));
}

absl::StatusOr<size_t> CheckedSize(int fd, absl::string_view what) {
  TENON_ASSIGN_OR_RETURN(const CheckedMemory memory, CheckMemory(fd, what));
  return memory.size_bytes;
}

TEST(CheckMemoryTest, TmpfsIsNotHugetlb) {
  TENON_ASSERT_OK_AND_ASSIGN(const CheckedMemory memory,
                             CheckMemory(MakeMemfdOf(1).get(), "x"));
  EXPECT_FALSE(memory.is_hugetlb);
}

TEST(CheckMemoryTest, SizeIsTheRealOne) {
  EXPECT_THAT(CheckedSize(MakeMemfdOf(1).get(), "x"), IsOkAndHolds(1u));
  EXPECT_THAT(CheckedSize(MakeMemfdOf(off_t{1} << 40).get(), "x"),
              IsOkAndHolds(size_t{1} << 40));
}

TEST(CheckMemoryTest, NothingIsNoSize) {
  EXPECT_THAT(CheckedSize(MakeMemfdOf(0).get(), "x"),
              StatusIs(kInvalidArgument, "x has 0 bytes"));
  EXPECT_THAT(CheckedSize(-1, "x"), StatusIs(kInvalidArgument));
}

TEST(CheckMemoryTest, HugePagesMustBeThere) {
  const off_t size = 2 << 20;
  const UniqueFd fd =
      MakeMemfdOf(size, MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB);
  if (!fd.valid()) GTEST_SKIP() << "no huge pages of 2 MiB here";
  EXPECT_THAT(CheckedSize(fd.get(), "x"),
              StatusIs(kInvalidArgument, HasSubstr("only 0 of them")));
  if (fallocate(fd.get(), 0, 0, size) != 0) {
    GTEST_SKIP() << "half checked: the pool of huge pages is empty";
  }
  TENON_ASSERT_OK_AND_ASSIGN(const CheckedMemory memory,
                             CheckMemory(fd.get(), "x"));
  EXPECT_EQ(memory.size_bytes, size_t{2} << 20);
  EXPECT_TRUE(memory.is_hugetlb);
}

TEST(CheckNamedMemoryTest, WantsExactlyTheModeOfAFinishedSegment) {
  const UniqueFd fd = MakeMemfdOf(1);
  ASSERT_EQ(fchmod(fd.get(), 0600), 0);
  TENON_ASSERT_OK_AND_ASSIGN(CheckedMemory memory,
                             CheckNamedMemory(fd.get(), "x"));
  EXPECT_FALSE(memory.has_name_token);
  ASSERT_EQ(fchmod(fd.get(), 01600), 0);
  TENON_ASSERT_OK_AND_ASSIGN(memory, CheckNamedMemory(fd.get(), "x"));
  EXPECT_TRUE(memory.has_name_token);
  for (mode_t mode : {01200, 01400, 01644, 03600, 0200, 0400, 0000, 0640, 0644,
                      0604, 0620, 0700, 0666, 04600}) {
    ASSERT_EQ(fchmod(fd.get(), mode), 0);
    EXPECT_THAT(CheckNamedMemory(fd.get(), "segment 'x'"),
                StatusIs(kPermissionDenied, HasSubstr("segment 'x'")))
        << mode;
  }
}

TEST(CheckNamedMemoryTest, ShowsOwnerAndMode) {
  const UniqueFd fd = MakeMemfdOf(1);
  ASSERT_EQ(fchmod(fd.get(), 0644), 0);
  EXPECT_THAT(CheckNamedMemory(fd.get(), "x"),
              StatusIs(kPermissionDenied,
                       AllOf(HasSubstr(absl::StrCat("user ", geteuid())),
                             HasSubstr("mode 0644"))));
}

TEST(CheckNamedMemoryTest, AnotherUsersIsRefused) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  const UniqueFd fd = MakeMemfdOf(1);
  ASSERT_EQ(fchmod(fd.get(), 0600), 0);
  ASSERT_EQ(fchown(fd.get(), kNobody, kNobody), 0);
  EXPECT_THAT(
      CheckNamedMemory(fd.get(), "x"),
      StatusIs(kPermissionDenied, HasSubstr(absl::StrCat("user ", kNobody))));
}

}  // namespace
}  // namespace tenon
