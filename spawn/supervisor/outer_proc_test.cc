// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Processes in a pid namespace whose /proc is the outer one, with other pids:
// the stray descendants of children are ended, and no other process.

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/pid_namespace_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/parent.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

// A process that has left its parent, its group and its terminal session.
absl::StatusOr<pid_t> StartDaemon() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return PosixError(errno, "pipe2", "");
  const UniqueFd reading(ends[0]), writing(ends[1]);
  const pid_t middle = fork();
  if (middle == 0) {
    setsid();
    const pid_t pid = fork();
    if (pid == 0) {
      for (;;) pause();
    }
    _exit(write(writing.get(), &pid, sizeof(pid)) == sizeof(pid) ? 0 : 1);
  }
  RetryOnEintr([&] { return waitpid(middle, nullptr, 0); });
  pid_t pid = -1;
  if (read(reading.get(), &pid, sizeof(pid)) != sizeof(pid)) {
    return absl::InternalError("no daemon");
  }
  return pid;
}

// Reports its parent's pid, and sends the pidfd of a daemon.
absl::Status LeaveADaemon(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  TENON_ASSIGN_OR_RETURN(const pid_t pid, StartDaemon());
  TENON_ASSIGN_OR_RETURN(const PidFd daemon, PidFd::Open(pid));
  const int fd = daemon.fd();
  const auto parent = Parent::Get();
  return test.Send(absl::StrCat(parent ? parent->pid() : 0), {fd}, Watchdog());
}
TENON_SPAWN_ENTRY("leave-a-daemon", LeaveADaemon);

void ExpectDaemonEndsWithTheChild() {
  TENON_ASSERT_OK_AND_ASSIGN(Talker child,
                             StartTalker({.entry = "leave-a-daemon"}));
  TENON_ASSERT_OK_AND_ASSIGN(Message born, child.channel.Receive(Watchdog()));
  EXPECT_EQ(born.bytes, absl::StrCat(getpid()));
  ASSERT_EQ(born.fds.size(), 1u);
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd daemon,
                             PidFd::Adopt(std::move(born.fds[0])));
  EXPECT_THAT(child.process.Join(Watchdog()), IsOk());
  EXPECT_TRUE(daemon.HasEnded());
}

class OuterProcTest : public testing::TestWithParam<Proc> {};

TEST_P(OuterProcTest, DaemonEndsWithTheChildThatStartedIt) {
  if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << kNoPidNamespace;
  EXPECT_TRUE(PassesInPidNamespace(GetParam(), ExpectDaemonEndsWithTheChild));
}

INSTANTIATE_TEST_SUITE_P(Proc, OuterProcTest,
                         testing::Values(Proc::kOuter, Proc::kOwn),
                         [](const auto& proc) {
                           return proc.param == Proc::kOuter ? "OuterProc"
                                                             : "OwnProc";
                         });

}  // namespace
}  // namespace tenon::spawn
