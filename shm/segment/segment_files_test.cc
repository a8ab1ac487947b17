// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/segment_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kFileBytes = 8192;

struct stat Stat(const UniqueFd& fd) {
  struct stat file;
  EXPECT_EQ(fstat(fd.get(), &file), 0);
  return file;
}

void ExpectWhole(const UniqueFd& fd) {
  EXPECT_EQ(Stat(fd).st_size, static_cast<off_t>(kFileBytes));
  EXPECT_GE(static_cast<size_t>(Stat(fd).st_blocks) * 512, kFileBytes);
  EXPECT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
}

// Makes memfd_create() fail with EINVAL for flags of Linux 6.3, as before it.
void BecomeOlderThanLinux63() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x0018, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

TEST(CreateMemfdTest, IsWholeAndCanBeSealed) {
  TENON_ASSERT_OK_AND_ASSIGN(const SegmentFile file,
                             CreateMemfd({.size_bytes = kFileBytes}, "x"));
  ExpectWhole(file.fd);
  EXPECT_EQ(fcntl(file.fd.get(), F_GET_SEALS) & F_SEAL_SEAL, 0);
  EXPECT_EQ(fcntl(file.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
}

TEST(CreateMemfdTest, CannotBeExecutedWhereTheKernelSeesToThat) {
  const UniqueFd probe(memfd_create("probe", MFD_CLOEXEC | 0x0008U));
  if (!probe.valid()) GTEST_SKIP() << "this kernel has no MFD_NOEXEC_SEAL";
  TENON_ASSERT_OK_AND_ASSIGN(const SegmentFile file,
                             CreateMemfd({.size_bytes = kFileBytes}, "x"));
  EXPECT_EQ(Stat(file.fd).st_mode & 0111, 0u);
  EXPECT_EQ(fchmod(file.fd.get(), 0700), -1);
}

TEST(CreateMemfdTest, WorksOnOlderKernels) {
  EXPECT_TRUE(PassesInChild([] {
    BecomeOlderThanLinux63();
    ASSERT_EQ(memfd_create("probe", MFD_CLOEXEC | 0x0008U), -1);
    ASSERT_EQ(errno, EINVAL);
    TENON_ASSERT_OK_AND_ASSIGN(const SegmentFile file,
                               CreateMemfd({.size_bytes = kFileBytes}, "x"));
    ExpectWhole(file.fd);
    EXPECT_EQ(fcntl(file.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  }));
}

class NamedFileTest : public testing::Test {
 protected:
  ~NamedFileTest() override { RemoveShmName(name_).IgnoreError(); }

  const std::string name_ = UniqueTestPrefix();
};

TEST_F(NamedFileTest, IsWholeAndPrivate) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const SegmentFile file,
      CreateNamedFile({.size_bytes = kFileBytes}, name_));
  ExpectWhole(file.fd);
  EXPECT_EQ(Stat(file.fd).st_mode & 07777, 01600u);
  EXPECT_EQ(Stat(file.fd).st_uid, geteuid());
}

TEST_F(NamedFileTest, UmaskDoesNotMatter) {
  const mode_t old = umask(0777);
  absl::StatusOr<SegmentFile> file =
      CreateNamedFile({.size_bytes = kFileBytes}, name_);
  umask(old);
  ASSERT_THAT(file, IsOk());
  EXPECT_EQ(Stat(file->fd).st_mode & 07777, 01600u);
  EXPECT_THAT(OpenNamedFile(name_, true, "x"), IsOk());
}

TEST_F(NamedFileTest, NameThatIsTakenIsLeftAlone) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const SegmentFile file,
      CreateNamedFile({.size_bytes = kFileBytes}, name_));
  EXPECT_THAT(CreateNamedFile({.size_bytes = 1}, name_),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(name_)));
  EXPECT_THAT(OpenNamedFile(name_, false, "x"), IsOk());
  ExpectWhole(file.fd);
}

TEST_F(NamedFileTest, PlantedLinkIsNotFollowed) {
  const std::string path = "/dev/shm/" + name_;
  const std::string target = testing::TempDir() + "/" + name_;
  ASSERT_EQ(symlink(target.c_str(), path.c_str()), 0);
  EXPECT_THAT(CreateNamedFile({.size_bytes = kFileBytes}, name_),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_NE(access(target.c_str(), F_OK), 0);
}

TEST_F(NamedFileTest, FailureRemovesTheName) {
  const size_t before = CountOpenFds();
  EXPECT_THAT(CreateNamedFile({.size_bytes = size_t{1} << 60}, name_),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(IsEmpty()));
  EXPECT_EQ(CountOpenFds(), before);
}

TEST_F(NamedFileTest, OpensAsAskedFor) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const SegmentFile file,
      CreateNamedFile({.size_bytes = kFileBytes}, name_));
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd reader,
                             OpenNamedFile(name_, false, "x"));
  EXPECT_EQ(fcntl(reader.get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(fcntl(reader.get(), F_GETFD), FD_CLOEXEC);
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd writer,
                             OpenNamedFile(name_, true, "x"));
  EXPECT_EQ(fcntl(writer.get(), F_GETFL) & O_ACCMODE, O_RDWR);
}

TEST_F(NamedFileTest, ErrorsNameWhatWasOpened) {
  EXPECT_THAT(OpenNamedFile(name_, true, "segment 'x'"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("shm_open(segment 'x')")));
}

}  // namespace
}  // namespace tenon
