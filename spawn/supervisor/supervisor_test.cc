// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A child's descendants end with it, however it ends.

#include "tenon/spawn/supervisor/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <iostream>
#include <optional>
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
#include "tenon/shm/process/keeper.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_identity.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

class SupervisorTest : public ChildTest {
 protected:
  void SetUp() override {
    ChildTest::SetUp();
    // Grandchildren are reparented to this process when their parent ends.
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  }
  void TearDown() override {
    ChildTest::TearDown();
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
};

// ---- Grandchildren ----

[[noreturn]] void StayForEver() {
  for (;;) pause();
}

pid_t Fork() {
  const pid_t pid = fork();
  if (pid == 0) StayForEver();
  return pid;
}

// By fork() and exec of another program.
pid_t Exec() {
  const pid_t pid = fork();
  if (pid == 0) {
    execlp("sleep", "sleep", "1000", nullptr);
    _exit(1);
  }
  return pid;
}

// A process that has left its parent and, as a daemon, its group and its
// terminal session.
pid_t DoubleFork(bool daemon) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  const pid_t middle = fork();
  if (middle == 0) {
    if (daemon) setsid();
    const pid_t pid = fork();
    if (pid == 0) {
      if (daemon) setsid();
      StayForEver();
    }
    if (write(ends[1], &pid, sizeof(pid)) < 0) _exit(1);
    _exit(0);
  }
  RetryOnEintr([&] { return waitpid(middle, nullptr, 0); });
  pid_t pid = -1;
  if (read(ends[0], &pid, sizeof(pid)) != sizeof(pid)) return -1;
  close(ends[0]);
  close(ends[1]);
  return pid;
}

// Forks a child that ends at once: it must not end the group.
void ForkOneThatEnds() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  RetryOnEintr([&] { return waitpid(pid, nullptr, 0); });
}

// Starts grandchildren, sends their pidfds, waits for a message, and ends as
// the message says. The last grandchild is a daemon.
absl::Status HaveChildren(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  ForkOneThatEnds();
  std::vector<PidFd> children;
  std::vector<int> fds;
  for (const pid_t pid :
       {Fork(), Exec(), DoubleFork(false), DoubleFork(true)}) {
    TENON_ASSIGN_OR_RETURN(PidFd one, PidFd::Open(pid));
    children.push_back(std::move(one));
    fds.push_back(children.back().fd());
  }
  TENON_RETURN_IF_ERROR(test.Send("", fds, Watchdog()));
  TENON_ASSIGN_OR_RETURN(const Message way, test.Receive(Watchdog()));
  if (way.bytes == "abort") abort();
  if (way.bytes == "_exit") _exit(3);
  if (way.bytes == "exit") exit(4);
  if (way.bytes == "kill") raise(SIGKILL);
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("have-children", HaveChildren);

// If this process may: the kernel lists them before the pids that a supervisor
// reads.
void JoinManyGroups() {
  std::vector<gid_t> groups;
  for (gid_t i = 0; i < 1000; ++i) groups.push_back(4'000'000'000u + i);
  if (setgroups(groups.size(), groups.data()) != 0) {
    std::cerr << "setgroups: " << std::strerror(errno) << "\n";
  }
}

// A daemon that outlives its starter, and an orphan that has its name. Returns
// their pids.
std::vector<pid_t> StartKeeper() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  const pid_t middle = fork();
  if (middle == 0) {
    if (fork() == 0) {
      setsid();
      JoinManyGroups();
      if (!BecomeKeeper().ok()) _exit(1);
      const pid_t pids[] = {getpid(), DoubleFork(true)};
      if (write(ends[1], pids, sizeof(pids)) < 0) _exit(1);
      StayForEver();
    }
    _exit(0);
  }
  RetryOnEintr([&] { return waitpid(middle, nullptr, 0); });
  std::vector<pid_t> pids(2);
  if (read(ends[0], pids.data(), 2 * sizeof(pid_t)) != 2 * sizeof(pid_t)) {
    return {};
  }
  close(ends[0]);
  close(ends[1]);
  return pids;
}

// Starts a keeper and its orphan, sends their pidfds, and ends on a message.
absl::Status HaveKeeper(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  std::vector<PidFd> pid_fds;
  std::vector<int> fds;
  for (const pid_t pid : StartKeeper()) {
    TENON_ASSIGN_OR_RETURN(PidFd one, PidFd::Open(pid));
    pid_fds.push_back(std::move(one));
    fds.push_back(pid_fds.back().fd());
  }
  TENON_RETURN_IF_ERROR(test.Send("", fds, Watchdog()));
  return test.Receive(Watchdog()).status();
}
TENON_SPAWN_ENTRY("have-keeper", HaveKeeper);

struct Family {
  Talker child;
  std::vector<PidFd> grandchildren;
};

absl::StatusOr<Family> StartFamily(ProcessOptions options) {
  if (options.entry.empty()) options.entry = "have-children";
  TENON_ASSIGN_OR_RETURN(Talker child, StartTalker(std::move(options)));
  TENON_ASSIGN_OR_RETURN(Message born, child.channel.Receive(Watchdog()));
  std::vector<PidFd> grandchildren;
  for (UniqueFd& fd : born.fds) {
    TENON_ASSIGN_OR_RETURN(PidFd one, PidFd::Adopt(std::move(fd)));
    grandchildren.push_back(std::move(one));
  }
  return Family{std::move(child), std::move(grandchildren)};
}

// The supervisor reaps them: no zombie is left.
void ExpectAllEnded(const std::vector<PidFd>& processes,
                    const std::string& how) {
  for (size_t i = 0; i < processes.size(); ++i) {
    EXPECT_TRUE(processes[i].HasEnded()) << how << ", grandchild " << i;
  }
}

class SupervisorMethodTest : public SupervisorTest,
                             public ::testing::WithParamInterface<StartMethod> {
 protected:
  void TearDown() override {
    StopForkServer();
    SupervisorTest::TearDown();
  }
};

TEST_P(SupervisorMethodTest, GrandchildrenEndWithTheChildHoweverItEnds) {
  for (const char* way : {"return", "exit", "_exit", "abort", "kill"}) {
    TENON_ASSERT_OK_AND_ASSIGN(Family family,
                               StartFamily({.method = GetParam()}));
    ASSERT_EQ(family.grandchildren.size(), 4u);
    for (const PidFd& one : family.grandchildren) {
      EXPECT_FALSE(one.HasEnded()) << way;
    }
    EXPECT_THAT(family.child.channel.Send(way, {}, Watchdog()), IsOk());
    family.child.process.Join(Watchdog()).IgnoreError();
    ExpectAllEnded(family.grandchildren, way);
  }
}

TEST_P(SupervisorMethodTest, GrandchildrenEndWithAChildThatIsStoppedAndKilled) {
  TENON_ASSERT_OK_AND_ASSIGN(Family family,
                             StartFamily({.method = GetParam()}));
  EXPECT_THAT(family.child.process.Signal(SIGSTOP), IsOk());
  EXPECT_THAT(family.child.process.Kill(), IsOk());
  family.child.process.Join(Watchdog()).IgnoreError();
  ExpectAllEnded(family.grandchildren, "stopped and killed");
}

// `orphan` has the keeper's name, but another pid.
void ExpectSpared(const PidFd& keeper, const PidFd& orphan) {
  EXPECT_THAT(orphan.WaitForEnd(Watchdog()), IsOk());
  EXPECT_THAT(keeper.WaitForEnd(Deadline::After(absl::Milliseconds(50))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(keeper.SendSignal(SIGKILL), IsOk());
  EXPECT_THAT(keeper.WaitForEnd(Watchdog()), IsOk());
}

TEST_P(SupervisorMethodTest, AKeeperIsSparedAndNoOtherProcess) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Family family,
      StartFamily({.entry = "have-keeper", .method = GetParam()}));
  ASSERT_EQ(family.grandchildren.size(), 2u);
  EXPECT_THAT(family.child.channel.Send("end", {}, Watchdog()), IsOk());
  EXPECT_THAT(family.child.process.Join(Watchdog()), IsOk());
  EXPECT_TRUE(family.grandchildren[1].HasEnded());
  ExpectSpared(family.grandchildren[0], family.grandchildren[1]);
  StopForkServer();
  while (HasChildren()) waitpid(-1, nullptr, 0);
}

INSTANTIATE_TEST_SUITE_P(All, SupervisorMethodTest,
                         ::testing::Values(StartMethod::kSpawn,
                                           StartMethod::kFork,
                                           StartMethod::kForkServer));

TEST_F(SupervisorTest, WithoutAGroupOfItsOwnTheyMayOutliveTheChild) {
  TENON_ASSERT_OK_AND_ASSIGN(Family family, StartFamily({.own_group = false}));
  EXPECT_THAT(family.child.channel.Send("return", {}, Watchdog()), IsOk());
  EXPECT_THAT(family.child.process.Join(Watchdog()), IsOk());
  for (const PidFd& one : family.grandchildren) {
    EXPECT_THAT(one.WaitForEnd(Deadline::After(absl::Milliseconds(20))),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(one.SendSignal(SIGKILL), IsOk());
    EXPECT_THAT(one.Reap(Watchdog()), IsOk());
  }
}

// ---- The supervisor is killed ----

TEST_F(SupervisorTest, ChildAndItsGroupEndWithTheSupervisor) {
  for (const bool stopped : {false, true}) {
    TENON_ASSERT_OK_AND_ASSIGN(Family family, StartFamily({}));
    const pid_t supervisor = ParentPid(family.child.process.pid());
    ASSERT_EQ(ParentPid(supervisor), getpid());
    if (stopped) {
      EXPECT_THAT(family.child.process.Signal(SIGSTOP), IsOk());
    }
    ASSERT_EQ(kill(supervisor, SIGKILL), 0);
    EXPECT_THAT(family.child.process.Join(Watchdog()),
                StatusIs(absl::StatusCode::kAborted,
                         HasSubstr("its supervisor was killed")));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_THAT(family.grandchildren[i].WaitForEnd(Watchdog()), IsOk()) << i;
    }
    // The daemon has escaped, and is reparented to this process like the
    // others.
    EXPECT_FALSE(family.grandchildren[3].HasEnded());
    EXPECT_THAT(family.grandchildren[3].SendSignal(SIGKILL), IsOk());
    while (HasChildren()) waitpid(-1, nullptr, 0);
  }
}

TEST_F(SupervisorTest, ItsSiblingsKeepTheirs) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker one, StartTalker({.entry = kEcho}));
  TENON_ASSERT_OK_AND_ASSIGN(Talker other, StartTalker({.entry = kEcho}));
  EXPECT_THAT(Ping(one.channel), IsOk());
  ASSERT_EQ(kill(ParentPid(one.process.pid()), SIGKILL), 0);
  EXPECT_THAT(one.process.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(Ping(other.channel), IsOk());
  // It was reparented to this process, a subreaper, and Join() has reaped it.
  EXPECT_EQ(waitpid(one.process.pid(), nullptr, 0), -1);
}

// ---- A tree of Tenon's children ----

// The index is its floor. Sends its pidfd and, above the ground floor, starts
// the next floor; stays. Only the top, floor 0, ever ends by itself.
absl::Status BeAFloor(Child& child) {
  Channel test = *TakeChannel(child);
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  const int fd = self.fd();
  std::vector<Process> below;
  if (child.index() > 0) {
    std::vector<UniqueFd> fds;
    fds.emplace_back(fcntl(test.fd(), F_DUPFD_CLOEXEC, 0));
    // Those in the middle would stay forever.
    TENON_ASSIGN_OR_RETURN(
        Process next,
        Process::Start({.entry = "be-a-floor",
                        .index = child.index() - 1,
                        .fds = std::move(fds),
                        .orphan_grace = child.index() == 1
                                            ? absl::Milliseconds(100)
                                            : absl::InfiniteDuration()}));
    below.push_back(std::move(next));
  }
  TENON_RETURN_IF_ERROR(
      test.Send(std::to_string(child.index()), {&fd, 1}, Watchdog()));
  StayForEver();
}
TENON_SPAWN_ENTRY("be-a-floor", BeAFloor);

TEST_F(SupervisorTest, TheWholeTreeSeesTheDeathOfItsRoot) {
  constexpr int kFloors = 8;
  TENON_ASSERT_OK_AND_ASSIGN(
      Talker root, StartTalker({.entry = "be-a-floor", .index = kFloors - 1}));
  std::vector<std::optional<PidFd>> floors(kFloors);
  for (int i = 0; i < kFloors; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Message said, root.channel.Receive(Watchdog()));
    TENON_ASSERT_OK_AND_ASSIGN(PidFd one, PidFd::Adopt(std::move(said.fds[0])));
    floors[std::stoul(said.bytes)] = std::move(one);
  }
  EXPECT_THAT(root.process.Kill(), IsOk());
  root.process.Join(Watchdog()).IgnoreError();
  // All between them live; the last has noticed it by itself.
  EXPECT_THAT(floors[0]->WaitForEnd(Watchdog()), IsOk());
  for (int i = 1; i < kFloors - 1; ++i) {
    EXPECT_FALSE(floors[static_cast<size_t>(i)]->HasEnded()) << i;
  }
  for (int i = kFloors - 2; i >= 0; --i) {
    const PidFd& one = *floors[static_cast<size_t>(i)];
    one.SendSignal(SIGKILL).IgnoreError();
    EXPECT_THAT(one.WaitForEnd(Watchdog()), IsOk());
  }
  while (HasChildren()) waitpid(-1, nullptr, 0);
}

// ---- Parent and child are killed together ----

// The argument is "" or the reason why it does not lead its group.
absl::Status StartFamilyHere(Child& child) {
  const bool together = child.argument() == "together";
  ProcessOptions options = {
      .entry = child.argument() == "keeper" ? "have-keeper" : "have-children",
      .orphan_grace =
          together ? absl::InfiniteDuration() : absl::ZeroDuration(),
      .own_group = child.argument() != "no group"};
  options.fds.push_back(child.TakeFd(0));
  TENON_ASSIGN_OR_RETURN(const Process one, Process::Start(std::move(options)));
  Channel test = *Channel::Adopt(child.TakeFd(1));
  TENON_ASSIGN_OR_RETURN(const PidFd pid_fd, PidFd::Open(one.pid()));
  const int fd = pid_fd.fd();
  TENON_RETURN_IF_ERROR(test.Send("", {&fd, 1}, Watchdog()));
  StayForEver();
}
TENON_SPAWN_ENTRY("start-family-here", StartFamilyHere);

struct WholeFamily {
  Talker parent;
  PidFd child;
  std::vector<PidFd> grandchildren;
};

absl::StatusOr<WholeFamily> StartWholeFamily(const char* way) {
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  ProcessOptions options = {.entry = "start-family-here", .argument = way};
  options.fds.push_back(ends.second.Release());
  TENON_ASSIGN_OR_RETURN(Talker parent, StartTalker(std::move(options)));
  // StartTalker() has put its own channel, which is for the child, first.
  TENON_ASSIGN_OR_RETURN(Message about, ends.first.Receive(Watchdog()));
  TENON_ASSIGN_OR_RETURN(PidFd child, PidFd::Adopt(std::move(about.fds[0])));
  TENON_ASSIGN_OR_RETURN(Message born, parent.channel.Receive(Watchdog()));
  std::vector<PidFd> grandchildren;
  for (UniqueFd& fd : born.fds) {
    TENON_ASSIGN_OR_RETURN(PidFd one, PidFd::Adopt(std::move(fd)));
    grandchildren.push_back(std::move(one));
  }
  return WholeFamily{std::move(parent), std::move(child),
                     std::move(grandchildren)};
}

void ExpectAllEnd(const std::vector<PidFd>& processes) {
  for (size_t i = 0; i < processes.size(); ++i) {
    EXPECT_THAT(processes[i].WaitForEnd(Watchdog()), IsOk()) << i;
    processes[i].SendSignal(SIGKILL).IgnoreError();  // One that was left.
  }
  while (HasChildren()) waitpid(-1, nullptr, 0);
}

TEST_F(SupervisorTest, AllEndWhenTheParentIsKilled) {
  for (const char* way : {"", "no group"}) {
    TENON_ASSERT_OK_AND_ASSIGN(WholeFamily family, StartWholeFamily(way));
    ASSERT_EQ(family.grandchildren.size(), 4u);
    EXPECT_THAT(family.parent.process.Kill(), IsOk());
    family.parent.process.Join(Watchdog()).IgnoreError();
    EXPECT_THAT(family.child.WaitForEnd(Watchdog()), IsOk());
    ExpectAllEnd(family.grandchildren);
  }
}

TEST_F(SupervisorTest, GrandchildrenEndThoughParentAndChildAreKilledTogether) {
  TENON_ASSERT_OK_AND_ASSIGN(WholeFamily family, StartWholeFamily("together"));
  ASSERT_EQ(family.grandchildren.size(), 4u);
  // Neither can react to the other's death.
  EXPECT_THAT(family.parent.process.Signal(SIGSTOP), IsOk());
  EXPECT_THAT(family.child.SendSignal(SIGSTOP), IsOk());
  EXPECT_THAT(family.parent.process.Kill(), IsOk());
  EXPECT_THAT(family.child.SendSignal(SIGKILL), IsOk());
  family.parent.process.Join(Watchdog()).IgnoreError();
  EXPECT_THAT(family.child.WaitForEnd(Watchdog()), IsOk());
  ExpectAllEnd(family.grandchildren);
}

// The supervisor above it has swept, and lingers, when this one is killed.
TEST_F(SupervisorTest, GrandchildrenEndThoughTheirSupervisorIsKilledLast) {
  TENON_ASSERT_OK_AND_ASSIGN(WholeFamily family, StartWholeFamily(""));
  ASSERT_EQ(family.grandchildren.size(), 4u);
  TENON_ASSERT_OK_AND_ASSIGN(const pid_t child, PidOf(family.child));
  TENON_ASSERT_OK_AND_ASSIGN(PidFd nested, PidFd::Open(ParentPid(child)));
  ASSERT_THAT(nested.SendSignal(SIGSTOP), IsOk());
  EXPECT_THAT(family.parent.process.Kill(), IsOk());
  family.parent.process.Join(Watchdog()).IgnoreError();
  EXPECT_FALSE(family.child.HasEnded());
  ASSERT_THAT(nested.SendSignal(SIGKILL), IsOk());
  EXPECT_THAT(family.child.WaitForEnd(Watchdog()), IsOk());
  ExpectAllEnd(family.grandchildren);
}

// By each of the supervisors above it, of which one has been killed.
TEST_F(SupervisorTest, AKeeperOutlivesAllSupervisors) {
  for (const bool killed : {false, true}) {
    TENON_ASSERT_OK_AND_ASSIGN(WholeFamily family, StartWholeFamily("keeper"));
    ASSERT_EQ(family.grandchildren.size(), 2u);
    if (killed) {
      TENON_ASSERT_OK_AND_ASSIGN(const pid_t child, PidOf(family.child));
      ASSERT_EQ(kill(ParentPid(child), SIGKILL), 0);
      EXPECT_THAT(family.child.WaitForEnd(Watchdog()), IsOk());
    }
    EXPECT_THAT(family.parent.process.Kill(), IsOk());
    family.parent.process.Join(Watchdog()).IgnoreError();
    EXPECT_THAT(family.child.WaitForEnd(Watchdog()), IsOk());
    ExpectSpared(family.grandchildren[0], family.grandchildren[1]);
    while (HasChildren()) waitpid(-1, nullptr, 0);
  }
}

// ---- A parent that is PID 1 or a subreaper ----

// The worker is killed, and with it all its descendants; the nested supervisor
// loses its parent.
TEST_F(SupervisorTest, NoZombieOfANestedSupervisorIsLeft) {
  for (int i = 0; i < 5; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(WholeFamily family, StartWholeFamily(""));
    EXPECT_THAT(family.parent.process.Kill(), IsOk());
    family.parent.process.Join(Watchdog()).IgnoreError();
  }
  EXPECT_TRUE(Becomes([] {
    // As the next start, or end, of a worker does.
    EXPECT_THAT(StartTalker({.entry = kEcho}), IsOk());
    return !HasChildren();
  }));
}

}  // namespace
}  // namespace tenon::spawn
