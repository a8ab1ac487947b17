// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Children whose parent dies. The test starts the parent; the parent's child is
// the orphan, whose supervisor is reparented to the test, which is a subreaper.

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

// Far more than the promise: orphan_grace, 0.5 s unless a test sets another.
Deadline SoonAfterDeath() { return Deadline::After(absl::Seconds(20)); }

// Reaps all children, whichever code started them. Errors: a child still runs.
absl::Status ReapAll(Deadline deadline) {
  for (;;) {
    siginfo_t info = {};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL) != 0) {
      return errno == ECHILD ? absl::OkStatus() : absl::InternalError("waitid");
    }
    if (info.si_pid != 0) continue;
    if (deadline.has_passed()) return absl::DeadlineExceededError("it lives");
    TENON_RETURN_IF_ERROR(
        PollUntil({}, Deadline::After(absl::Milliseconds(1))).status());
  }
}

class OrphanTest : public ChildTest {
 protected:
  void SetUp() override {
    ChildTest::SetUp();
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  }
  // The orphans' supervisors are reparented to this process.
  void TearDown() override {
    EXPECT_THAT(ReapAll(SoonAfterDeath()), IsOk());
    ChildTest::TearDown();
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
};

// Sends its pidfd to the test, and waits until its parent closes the channel
// between them. Then stays forever, or reports it and ends when told to.
absl::Status BeOrphaned(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  TENON_ASSIGN_OR_RETURN(Channel parent, Channel::Adopt(child.TakeFd(1)));
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  const int fd = self.fd();
  TENON_RETURN_IF_ERROR(test.Send("alive", {&fd, 1}, Watchdog()));
  const absl::Status closed = parent.Receive(Deadline::Never()).status();
  if (child.argument() == "stay") pause();
  TENON_RETURN_IF_ERROR(test.Send(closed.ToString(), {}, Watchdog()));
  return test.Receive(Watchdog()).status();
}
TENON_SPAWN_ENTRY("be-orphaned", BeOrphaned);

// Starts a child with a channel to the test, then waits until it is killed.
absl::Status BeParent(Child& child) {
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  std::vector<UniqueFd> fds;
  fds.push_back(child.TakeFd(0));
  fds.push_back(ends.second.Release());
  TENON_ASSIGN_OR_RETURN(
      const Process orphan,
      Process::Start({.entry = "be-orphaned",
                      .argument = child.argument(),
                      .fds = std::move(fds),
                      .orphan_grace = absl::Milliseconds(child.index())}));
  for (;;) pause();
}
TENON_SPAWN_ENTRY("be-parent", BeParent);

struct ParentAndOrphan {
  Talker parent;  // Its channel is connected to the orphan.
  PidFd orphan;
};

absl::StatusOr<ParentAndOrphan> StartOrphan(absl::Duration grace,
                                            const std::string& way) {
  TENON_ASSIGN_OR_RETURN(
      Talker parent,
      StartTalker({.entry = "be-parent",
                   .index = static_cast<int>(absl::ToInt64Milliseconds(grace)),
                   .argument = way}));
  TENON_ASSIGN_OR_RETURN(Message alive, parent.channel.Receive(Watchdog()));
  TENON_ASSIGN_OR_RETURN(PidFd orphan, PidFd::Adopt(std::move(alive.fds[0])));
  return ParentAndOrphan{std::move(parent), std::move(orphan)};
}

void KillParent(ParentAndOrphan& family) {
  EXPECT_THAT(family.parent.process.Signal(SIGKILL), IsOk());
  EXPECT_THAT(family.parent.process.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted));
}

TEST_F(OrphanTest, EndsAfterItsParent) {
  for (const absl::Duration grace :
       {absl::Milliseconds(-5), absl::ZeroDuration(),
        absl::Milliseconds(200)}) {
    TENON_ASSERT_OK_AND_ASSIGN(ParentAndOrphan family,
                               StartOrphan(grace, "stay"));
    EXPECT_FALSE(family.orphan.HasEnded());
    KillParent(family);
    EXPECT_THAT(family.orphan.WaitForEnd(SoonAfterDeath()), IsOk());
  }
}

TEST_F(OrphanTest, HasAGraceToEndByItself) {
  TENON_ASSERT_OK_AND_ASSIGN(ParentAndOrphan family,
                             StartOrphan(absl::Minutes(10), "end"));
  KillParent(family);
  Channel& channel = family.parent.channel;
  TENON_ASSERT_OK_AND_ASSIGN(const Message seen, channel.Receive(Watchdog()));
  EXPECT_THAT(seen.bytes, ::testing::HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(
      family.orphan.WaitForEnd(Deadline::After(absl::Milliseconds(100))),
      StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(channel.Send("end now", {}, Watchdog()), IsOk());
  EXPECT_THAT(family.orphan.WaitForEnd(SoonAfterDeath()), IsOk());
}

TEST_F(OrphanTest, CanUseItsGraceThoughItWasStopped) {
  TENON_ASSERT_OK_AND_ASSIGN(ParentAndOrphan family,
                             StartOrphan(absl::Minutes(10), "end"));
  EXPECT_THAT(family.orphan.SendSignal(SIGSTOP), IsOk());
  KillParent(family);
  Channel& channel = family.parent.channel;
  EXPECT_THAT(channel.Receive(Watchdog()), IsOk());
  EXPECT_THAT(channel.Send("end now", {}, Watchdog()), IsOk());
  EXPECT_THAT(family.orphan.WaitForEnd(SoonAfterDeath()), IsOk());
}

// Only the parent's death ends it, and a stopped parent is alive.
TEST_F(OrphanTest, IsNoOrphanWhileItsParentIsStopped) {
  TENON_ASSERT_OK_AND_ASSIGN(ParentAndOrphan family,
                             StartOrphan(absl::ZeroDuration(), "stay"));
  EXPECT_THAT(family.parent.process.Signal(SIGSTOP), IsOk());
  EXPECT_THAT(
      family.orphan.WaitForEnd(Deadline::After(absl::Milliseconds(100))),
      StatusIs(absl::StatusCode::kDeadlineExceeded));
  KillParent(family);
  EXPECT_THAT(family.orphan.WaitForEnd(SoonAfterDeath()), IsOk());
}

// ---- The parent dies while it starts its child ----

absl::Status StayForEver(Child&) {
  for (;;) pause();
}
TENON_SPAWN_ENTRY("stay-for-ever", StayForEver);

// Waits for a message of the test, then starts a child with everything that
// Start() can hand over, and reports that. The index is the number of
// descriptors.
absl::Status StartWhenTold(Child& child) {
  std::vector<UniqueFd> fds;
  for (int i = 0; i < child.index(); ++i) fds.emplace_back(dup(STDERR_FILENO));
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  TENON_RETURN_IF_ERROR(test.Send("ready", {}, Watchdog()));
  TENON_RETURN_IF_ERROR(test.Receive(Watchdog()).status());
  TENON_ASSIGN_OR_RETURN(
      const Process orphan,
      Process::Start({.entry = "stay-for-ever",
                      .argument = "argument",
                      .fds = std::move(fds),
                      .orphan_grace = absl::ZeroDuration()}));
  TENON_RETURN_IF_ERROR(test.Send("started", {}, Watchdog()));
  for (;;) pause();
}
TENON_SPAWN_ENTRY("start-when-told", StartWhenTold);

// Resumes `pid`, which is traced, until the entry or exit of its next system
// call. False if it has ended.
bool RunToNextStop(pid_t pid) {
  if (ptrace(PTRACE_SYSCALL, pid, nullptr, nullptr) != 0) return false;
  int status = 0;
  return RetryOnEintr([&] { return waitpid(pid, &status, __WALL); }) == pid &&
         WIFSTOPPED(status);
}

// Kills a parent at its `stops`-th entry or exit of a system call. False if it
// had reported completion before.
absl::StatusOr<bool> KillParentAtStop(int stops, int fd_count) {
  TENON_ASSIGN_OR_RETURN(Talker parent, StartTalker({.entry = "start-when-told",
                                                     .index = fd_count}));
  TENON_RETURN_IF_ERROR(parent.channel.Receive(Watchdog()).status());
  const pid_t pid = parent.process.pid();
  if (ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) != 0 ||
      ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) != 0 ||
      RetryOnEintr([&] { return waitpid(pid, nullptr, __WALL); }) != pid) {
    return absl::UnimplementedError("ptrace is not allowed here");
  }
  TENON_RETURN_IF_ERROR(parent.channel.Send("go", {}, Watchdog()));
  bool through = false;
  for (int i = 0; i < stops && !through; ++i) {
    if (!RunToNextStop(pid)) return absl::InternalError("it has ended");
    through = parent.channel.Receive(Deadline::Passed()).ok();
  }
  TENON_RETURN_IF_ERROR(parent.process.Signal(SIGKILL));
  // The tracer is notified first.
  RetryOnEintr([&] { return waitpid(pid, nullptr, __WALL); });
  const absl::Status killed = parent.process.Join(Watchdog());
  if (!absl::IsAborted(killed)) return killed;
  return !through;
}

struct Sweep {
  int fd_count;
  int stride;  // In stops.
};

class OrphanSweepTest : public OrphanTest,
                        public ::testing::WithParamInterface<Sweep> {};

TEST_P(OrphanSweepTest, NoneIsLeftWhereverInStartTheParentIsKilled) {
  const auto [fd_count, stride] = GetParam();
  for (int stops = 0;; stops += stride) {
    const absl::StatusOr<bool> killed_before_the_end =
        KillParentAtStop(stops, fd_count);
    if (absl::IsUnimplemented(killed_before_the_end.status())) {
      GTEST_SKIP() << killed_before_the_end.status();
    }
    ASSERT_THAT(killed_before_the_end, IsOk()) << "stop " << stops;
    ASSERT_THAT(ReapAll(SoonAfterDeath()), IsOk()) << "stop " << stops;
    if (!*killed_before_the_end) {
      EXPECT_GT(stops, 20) << "Start() makes more system calls than that";
      RecordProperty("stops", stops);
      break;
    }
  }
}

// More descriptors than one message takes, most of whose stops are close().
INSTANTIATE_TEST_SUITE_P(FewAndMany, OrphanSweepTest,
                         ::testing::Values(Sweep{2, 1}, Sweep{300, 11}));

}  // namespace
}  // namespace tenon::spawn
