// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Identification of processes by pidfds: with pidfs and without, and in a pid
// namespace whose /proc is the outer one, its own, or none.

#include "tenon/shm/process/process_identity.h"

#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/linux_6_1_testing.h"
#include "tenon/shm/testing/pid_namespace_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

void WaitForEver(const Reporter&) {
  for (;;) pause();
}

ForkedChild StartSleeper() {
  return ForkedChild::Fork({.name = "sleeper"}, WaitForEver).value();
}

PidFd Open(pid_t pid) { return PidFd::Open(pid).value(); }

bool HasPidFs() {
  constexpr auto kMagic = 0x50494446;
  struct statfs fs;
  return fstatfs(Open(getpid()).fd(), &fs) == 0 && fs.f_type == kMagic;
}

enum class Kernel { kThis, kWithoutPidFs };

// Each test runs as pid 1 of a pid namespace.
class ProcessIdentityTest
    : public testing::TestWithParam<std::tuple<Proc, Kernel>> {
 protected:
  Proc proc() const { return std::get<0>(GetParam()); }

  void Run(const std::function<void()>& body) {
    if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << kNoPidNamespace;
    EXPECT_TRUE(PassesInPidNamespace(proc(), [&] {
      if (std::get<1>(GetParam()) == Kernel::kWithoutPidFs) {
        ASSERT_TRUE(HidePidFs());
      }
      can_compare_ = proc() != Proc::kNone || HasPidFs();
      body();
    }));
  }

  // For processes in the namespace.
  bool can_compare() const { return can_compare_; }

 private:
  bool can_compare_ = false;
};

TEST_P(ProcessIdentityTest, TwoPidFdsOfOneProcessAndOfTwo) {
  Run([&] {
    const ForkedChild child = StartSleeper();
    const PidFd self = Open(getpid());
    EXPECT_THAT(Compare(self, Open(getpid())),
                IsOkAndHolds(can_compare() ? SameProcess::kYes
                                           : SameProcess::kUnknown));
    EXPECT_THAT(
        Compare(self, child.pid_fd()),
        IsOkAndHolds(can_compare() ? SameProcess::kNo : SameProcess::kUnknown));
  });
}

TEST_P(ProcessIdentityTest, SenderIsKnownByItsCredentials) {
  Run([&] {
    const ForkedChild child = StartSleeper();
    const auto sender =
        IdentifySender(child.pid_fd(), child.pid(), std::nullopt);
    if (!can_compare()) {
      EXPECT_THAT(sender.status(),
                  StatusIs(kFailedPrecondition,
                           AllOf(HasSubstr(absl::StrCat("pid ", child.pid())),
                                 HasSubstr("mount the /proc"))));
      return;
    }
    ASSERT_THAT(sender, IsOk());
    EXPECT_NE(sender->fd(), child.pid_fd().fd());
    EXPECT_THAT(Compare(*sender, child.pid_fd()),
                IsOkAndHolds(SameProcess::kYes));
  });
}

TEST_P(ProcessIdentityTest, SenderOfAnothersPidFdIsRefused) {
  Run([&] {
    const ForkedChild child = StartSleeper();
    const auto code = can_compare() ? kInvalidArgument : kFailedPrecondition;
    EXPECT_THAT(IdentifySender(child.pid_fd(), getpid(), std::nullopt).status(),
                StatusIs(code));
    if (!can_compare()) return;
    const auto vouched =
        IdentifySender(child.pid_fd(), getpid(), Open(getpid()));
    EXPECT_THAT(vouched.status(),
                StatusIs(kInvalidArgument, HasSubstr("of another process")));
  });
}

// By the kernel's own pidfd, also where pidfds cannot be compared.
TEST_P(ProcessIdentityTest, SenderWithoutANumberIsKnownIfTheKernelVouches) {
  Run([&] {
    const PidFd self = Open(getpid());
    EXPECT_THAT(IdentifySender(self, 0, std::nullopt).status(),
                StatusIs(kFailedPrecondition, HasSubstr("one pid namespace")));
    EXPECT_THAT(IdentifySender(self, 0, Open(getpid())), IsOk());
  });
}

TEST_P(ProcessIdentityTest, SenderThatWasReapedIsNotFound) {
  Run([&] {
    ForkedChild child = StartSleeper();
    const pid_t pid = child.pid();
    const PidFd sent = Open(pid);
    child.Kill();
    EXPECT_THAT(IdentifySender(sent, pid, std::nullopt).status(),
                StatusIs(kNotFound));
    // Its number now refers to another process.
    EXPECT_THAT(IdentifySender(sent, getpid(), std::nullopt).status(),
                StatusIs(kNotFound));
  });
}

TEST_P(ProcessIdentityTest, PidIsThatOfThisNamespace) {
  Run([&] {
    const pid_t shown = proc() == Proc::kNone ? 0 : 1;
    EXPECT_THAT(PidOf(Open(getpid())), IsOkAndHolds(shown));
    ForkedChild child = StartSleeper();
    const PidFd process = Open(child.pid());
    EXPECT_THAT(PidOf(process), IsOkAndHolds(shown * child.pid()));
    child.Kill();
    EXPECT_THAT(PidOf(process), IsOkAndHolds(0));
  });
}

/// proc may show it, by a number that has another meaning here.
TEST_P(ProcessIdentityTest, ProcessOfTheOuterNamespaceHasNoPid) {
  const PidFd outer = Open(getpid());
  Run([&] {
    EXPECT_THAT(PidOf(outer), IsOkAndHolds(0));
    if (proc() == Proc::kOuter) {
      TENON_ASSERT_OK_AND_ASSIGN(const pid_t shown, ProcPidOf(outer));
      EXPECT_GT(shown, 1);
    }
  });
}

std::string NameOfParam(
    const testing::TestParamInfo<std::tuple<Proc, Kernel>>& info) {
  constexpr const char* kProc[] = {"OuterProc", "OwnProc", "NoProc"};
  constexpr const char* kKernel[] = {"ThisKernel", "WithoutPidFs"};
  return absl::StrCat(kProc[static_cast<int>(std::get<0>(info.param))],
                      kKernel[static_cast<int>(std::get<1>(info.param))]);
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, ProcessIdentityTest,
    testing::Combine(testing::Values(Proc::kOuter, Proc::kOwn, Proc::kNone),
                     testing::Values(Kernel::kThis, Kernel::kWithoutPidFs)),
    NameOfParam);

}  // namespace
}  // namespace tenon
