// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(OpenMemfdTest, IsEmptySealableAndClosedOnExec) {
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd fd, OpenMemfd("label", 0, "it"));
  EXPECT_EQ(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  struct stat info;
  ASSERT_EQ(fstat(fd.get(), &info), 0);
  EXPECT_EQ(info.st_size, 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
}

TEST(OpenMemfdTest, TheKernelShowsTheLabel) {
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd fd, OpenMemfd("a.label", 0, "it"));
  char target[64] = {};
  ASSERT_GT(readlink(absl::StrCat("/proc/self/fd/", fd.get()).c_str(), target,
                     sizeof(target) - 1),
            0);
  EXPECT_THAT(std::string(target), HasSubstr("memfd:a.label"));
}

TEST(OpenMemfdTest, CannotBeExecutedWhereTheKernelSeesToThat) {
  constexpr int kSealExec = 0x20;  // F_SEAL_EXEC, Linux 6.3.
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd fd, OpenMemfd("label", 0, "it"));
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if ((seals & kSealExec) == 0) GTEST_SKIP() << "a kernel before 6.3";
  struct stat info;
  ASSERT_EQ(fstat(fd.get(), &info), 0);
  EXPECT_EQ(info.st_mode & 0111, 0u);
  EXPECT_NE(fchmod(fd.get(), 0700), 0);
}

TEST(OpenMemfdTest, LabelThatIsTooLongIsRefused) {
  EXPECT_THAT(
      OpenMemfd(std::string(300, 'x'), 0, "the thing"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("memfd_create"), HasSubstr("the thing"))));
}

TEST(OpenMemfdTest, AtTheLimitOfDescriptorsTheErrorNamesIt) {
  EXPECT_TRUE(PassesInChild([] {
    const int next = dup(0);
    ASSERT_EQ(close(next), 0);
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit none = {static_cast<rlim_t>(next), limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto fd = OpenMemfd("label", 0, "the thing");
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_THAT(fd, StatusIs(absl::StatusCode::kResourceExhausted,
                             HasSubstr("RLIMIT_NOFILE")));
  }));
}

}  // namespace
}  // namespace tenon
