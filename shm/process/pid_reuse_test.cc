// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A PidFd refers to one process, also when its pid has been reused.

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

Deadline Watchdog() { return Deadline::After(absl::Minutes(1)); }

[[noreturn]] void SleepUntilKilled() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) pause();
}

pid_t ForkSleeper() {
  const pid_t pid = fork();
  if (pid == 0) SleepUntilKilled();
  return pid;
}

// The same with a free pid; -1 if choosing one is not permitted.
pid_t ForkSleeperAs(pid_t pid) {
  clone_args args = {};
  args.exit_signal = SIGCHLD;
  args.set_tid = reinterpret_cast<uintptr_t>(&pid);
  args.set_tid_size = 1;
  const auto result =
      static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof(args)));
  if (result == 0) SleepUntilKilled();
  return result;
}

void KillAndReap(pid_t pid) {
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
}

bool EnterOwnPidNamespace() {
  return unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
}

bool CanEnterOwnPidNamespace() {
  const pid_t probe = fork();
  if (probe == 0) _exit(EnterOwnPidNamespace() ? 0 : 1);
  int status = -1;
  return waitpid(probe, &status, 0) == probe && status == 0;
}

// Runs `body` as pid 1 of a namespace.
testing::AssertionResult PassesInPidNamespace(
    const std::function<void()>& body) {
  return PassesInChild([&] {
    ASSERT_TRUE(EnterOwnPidNamespace());
    EXPECT_TRUE(PassesInChild(body));
  });
}

// `stale` refers to a process that was reaped, and whose pid now belongs to
// another live one.
void ExpectMeansTheDead(const PidFd& stale, pid_t other) {
  EXPECT_TRUE(stale.HasEnded());
  EXPECT_THAT(stale.WaitForEnd(Deadline::Passed()), IsOk());
  EXPECT_THAT(stale.SendSignal(SIGKILL), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(stale.Reap(Watchdog()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd fresh, PidFd::Open(other));
  EXPECT_FALSE(fresh.HasEnded());
  EXPECT_THAT(fresh.SendSignal(SIGTERM), IsOk());
  const absl::StatusOr<ExitStatus> end = fresh.Reap(Watchdog());
  ASSERT_THAT(end, IsOk());
  EXPECT_EQ(end->signal, SIGTERM);
}

TEST(PidReuseTest, ReusedAtOnce) {
  if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << "no pid namespaces here";
  EXPECT_TRUE(PassesInPidNamespace([] {
    const pid_t pid = ForkSleeper();
    TENON_ASSERT_OK_AND_ASSIGN(const PidFd stale, PidFd::Open(pid));
    KillAndReap(pid);
    ASSERT_EQ(ForkSleeperAs(pid), pid);
    ExpectMeansTheDead(stale, pid);
  }));
}

// Forks until a process has `pid`, which it returns, or `most` have not.
pid_t ForkUntil(pid_t pid, int most) {
  for (int i = 0; i < most; ++i) {
    const pid_t next = fork();
    if (next == 0) SleepUntilKilled();
    if (next == pid || next < 0) return next;
    KillAndReap(next);
  }
  return -1;
}

// By natural reuse: when the pids have wrapped around.
TEST(PidReuseTest, ReusedAfterAllOthers) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "32,768 forks, of which a sanitizer sees nothing new";
#endif
  std::ifstream file("/proc/sys/kernel/pid_max");
  int pid_max = 0;
  ASSERT_TRUE(file >> pid_max);
  if (pid_max > 40'000) {
    GTEST_SKIP() << "it would take " << pid_max << " processes";
  }
  const pid_t pid = ForkSleeper();
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd stale, PidFd::Open(pid));
  KillAndReap(pid);
  const pid_t other = ForkUntil(pid, 3 * pid_max);
  if (other < 0) GTEST_SKIP() << "somebody else was given pid " << pid;
  ExpectMeansTheDead(stale, other);
}

}  // namespace
}  // namespace tenon
