// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/process/process_info.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

void WaitForEver(const Reporter&) {
  for (;;) pause();
}

// The kernel changes the state with a delay.
bool ReachesState(pid_t pid, const std::string& state) {
  const Deadline deadline = Deadline::After(absl::Seconds(10));
  while (!deadline.has_passed()) {
    if (StateOf(pid) == state) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

TEST(StateOfTest, OfAPidFdIsThatOfTheProcessAlsoOnceReaped) {
  TENON_ASSERT_OK_AND_ASSIGN(auto child, ForkedChild::Fork({}, WaitForEver));
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
  EXPECT_EQ(StateOf(process), "running");
  EXPECT_EQ(NameOf(process), NameOf(getpid()));
  child.Kill();
  EXPECT_EQ(StateOf(process), "ended");
  EXPECT_EQ(NameOf(process), "");
}

TEST(StateOfTest, NamesRunningStoppedAndEnded) {
  EXPECT_EQ(StateOf(getpid()), "running");
  TENON_ASSERT_OK_AND_ASSIGN(auto child, ForkedChild::Fork({}, WaitForEver));
  const pid_t pid = child.pid();
  EXPECT_EQ(StateOf(pid), "running");
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  EXPECT_TRUE(ReachesState(pid, "stopped"));
  ASSERT_EQ(kill(pid, SIGCONT), 0);
  EXPECT_TRUE(ReachesState(pid, "running"));
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  EXPECT_TRUE(ReachesState(pid, "ended"));  // Not reaped yet.
  child.Kill();
  EXPECT_EQ(StateOf(pid), "ended");
}

TEST(StateOfTest, IsUnknownWithoutAPid) {
  EXPECT_EQ(StateOf(0), "unknown");
  EXPECT_EQ(StateOf(-1), "unknown");
}

TEST(StateOfTest, ANameCannotLookLikeAState) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_EQ(prctl(PR_SET_NAME, "x) Z (T) T"), 0);
    EXPECT_EQ(StateOf(getpid()), "running");
  }));
}

}  // namespace
}  // namespace tenon
