// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Supervisors in restricted environments, and supervisors of misbehaving
// children.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_info.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/supervisor/supervisor.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

class SupervisorOddTest : public ChildTest {};

// Runs `entry` in a child, which must succeed.
void ExpectSuccess(const std::string& entry) {
  TENON_ASSERT_OK_AND_ASSIGN(Process process, Process::Start({.entry = entry}));
  EXPECT_THAT(process.Join(Watchdog()), IsOk());
}

// Starts a child, exchanges messages with it, ends it.
absl::Status StartAndEndOne(StartMethod method) {
  TENON_ASSIGN_OR_RETURN(Talker talker,
                         StartTalker({.entry = kEcho, .method = method}));
  TENON_RETURN_IF_ERROR(Ping(talker.channel));
  TENON_RETURN_IF_ERROR(talker.process.Kill());
  const absl::Status how = talker.process.Join(Watchdog());
  return absl::StrContains(how.message(), "SIGKILL") ? absl::OkStatus() : how;
}

// ---- Restricted environments ----

absl::Status TellFds(Child& child) {
  return Say(child, absl::StrCat(CountOpenFds()));
}
TENON_SPAWN_ENTRY("tell-fds", TellFds);

absl::Status StartWithoutCloseRange(Child&) {
  std::string before[2];
  std::string after[2];
  constexpr StartMethod kMethods[] = {StartMethod::kSpawn, StartMethod::kFork};
  for (int i = 0; i < 2; ++i) {
    TENON_ASSIGN_OR_RETURN(
        before[i], AnswerOf({.entry = "tell-fds", .method = kMethods[i]}));
  }
  // Like a kernel older than 5.9.
  if (!FailSystemCall({.number = SYS_close_range, .error = ENOSYS})) {
    return absl::PermissionDeniedError("no seccomp filter here");
  }
  for (int i = 0; i < 2; ++i) {
    TENON_ASSIGN_OR_RETURN(
        after[i], AnswerOf({.entry = "tell-fds", .method = kMethods[i]}));
    if (after[i] != before[i]) {
      return absl::InternalError(
          absl::StrCat("descriptors: ", before[i], ", then ", after[i]));
    }
  }
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("start-without-close-range", StartWithoutCloseRange);

TEST_F(SupervisorOddTest, OlderKernelsHaveNoCloseRange) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Process process, Process::Start({.entry = "start-without-close-range"}));
  const absl::Status how = process.Join(Watchdog());
  if (absl::IsPermissionDenied(how)) GTEST_SKIP() << how;
  EXPECT_THAT(how, IsOk());
}

// The kernel kills a process that writes more than that, even into memory.
absl::Status StartWithoutFiles(Child&) {
  for (const rlim_t size : {rlim_t{100}, rlim_t{0}}) {
    const rlimit limit = {.rlim_cur = size, .rlim_max = size};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) {
      return absl::InternalError("setrlimit");
    }
    TENON_RETURN_IF_ERROR(StartAndEndOne(StartMethod::kSpawn));
    TENON_RETURN_IF_ERROR(StartAndEndOne(StartMethod::kFork));
  }
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("start-without-files", StartWithoutFiles);

TEST_F(SupervisorOddTest, NoFileMayBeWritten) {
  ExpectSuccess("start-without-files");
}

// Later children are in a pid namespace of their own, and see other pids than
// the process that starts them.
absl::StatusOr<std::string> PidOfOneInANamespace() {
  if (unshare(CLONE_NEWPID) != 0 &&
      unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
    return "skip";
  }
  TENON_ASSIGN_OR_RETURN(Talker talker, StartTalker({.entry = kEcho}));
  TENON_RETURN_IF_ERROR(Ping(talker.channel));
  const pid_t pid = talker.process.pid();
  // The supervisor is the first process.
  if (PidsOf(pid) == std::vector<pid_t>{pid, 2}) return "right";
  return absl::StrCat("its pid is ", pid);
}

absl::Status StartInPidNamespace(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  TENON_ASSIGN_OR_RETURN(const std::string how, PidOfOneInANamespace());
  TENON_RETURN_IF_ERROR(test.Send(how, {}, Watchdog()));
  // It cannot start any process any more, as a leak checker would.
  for (;;) pause();
}
TENON_SPAWN_ENTRY("start-in-pid-namespace", StartInPidNamespace);

TEST_F(SupervisorOddTest, ChildInAnotherPidNamespace) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker,
                             StartTalker({.entry = "start-in-pid-namespace"}));
  TENON_ASSERT_OK_AND_ASSIGN(const Message how,
                             talker.channel.Receive(Watchdog()));
  if (how.bytes == "skip") GTEST_SKIP() << "no pid namespaces here";
  EXPECT_EQ(how.bytes, "right");
}

std::string LinkOf(int fd) {
  std::error_code error;
  return std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd),
                                       error)
      .string();
}

absl::Status TellStreams(Child& child) {
  return Say(child, absl::StrCat(LinkOf(0), " ", LinkOf(1), " ", LinkOf(2)));
}
TENON_SPAWN_ENTRY("tell-streams", TellStreams);

// The descriptor that occupies the slot of a standard stream here must not
// reach the child: it may be an end of its death pipe.
absl::Status StartWithoutStreams(Child&) {
  for (int fd = 0; fd < 3; ++fd) close(fd);
  for (const StartMethod method : {StartMethod::kSpawn, StartMethod::kFork}) {
    TENON_ASSIGN_OR_RETURN(
        const std::string said,
        AnswerOf({.entry = "tell-streams", .method = method}));
    if (said != "/dev/null /dev/null /dev/null") {
      return absl::InternalError(said);
    }
  }
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("start-without-streams", StartWithoutStreams);

TEST_F(SupervisorOddTest, ForkedChildHasNothingInPlaceOfAStream) {
  ExpectSuccess("start-without-streams");
}

// ---- The thread that starts it is cancelled ----

// With a pending cancellation that takes effect at the first call that may
// block.
void* StartAndBeCancelled(void* exit_code) {
  int before = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  pthread_cancel(pthread_self());
  auto control = Channel::CreatePair();
  const ChildFds fds = {.control = control.ok() ? control->first.fd() : -1};
  pthread_setcancelstate(before, nullptr);
  absl::StatusOr<SupervisedChildren> children =
      StartSupervised({.children = {&fds, 1}});
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  if (children.ok()) {
    const absl::StatusOr<ExitStatus> end =
        children->children[0].child_exit.TakeStatus(Watchdog());
    if (end.ok()) *static_cast<int*>(exit_code) = end->exit_code;
    children->supervisor.reset();
  }
  control = absl::CancelledError();
  pthread_setcancelstate(before, nullptr);
  pthread_testcancel();
  return nullptr;
}

// The supervisor shares the thread's stack until exec, and must not unwind it.
// The child finds nothing in its channel, and fails.
absl::Status StartWhileCancelled(Child&) {
  int exit_code = 0;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, StartAndBeCancelled, &exit_code) != 0) {
    return absl::InternalError("pthread_create");
  }
  void* result = nullptr;
  pthread_join(thread, &result);
  if (result == PTHREAD_CANCELED && exit_code == 1) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("exit code ", exit_code));
}
TENON_SPAWN_ENTRY("start-while-cancelled", StartWhileCancelled);

TEST_F(SupervisorOddTest, ThreadThatStartsItIsCancelled) {
  ExpectSuccess("start-while-cancelled");
}

// ---- Misbehaving children ----

absl::Status StopSupervisor(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  kill(getppid(), SIGSTOP);
  TENON_RETURN_IF_ERROR(test.Send("stopped", {}, Watchdog()));
  for (;;) pause();
}
TENON_SPAWN_ENTRY("stop-supervisor", StopSupervisor);

TEST_F(SupervisorOddTest, AStoppedSupervisorHoldsUpNobodyWhoKills) {
  for (const char* way : {"kill", "stop", "destroy"}) {
    TENON_ASSERT_OK_AND_ASSIGN(Talker talker,
                               StartTalker({.entry = "stop-supervisor"}));
    EXPECT_THAT(talker.channel.Receive(Watchdog()), IsOk());
    if (way == absl::string_view("kill")) {
      EXPECT_THAT(talker.process.Kill(), IsOk());
      EXPECT_THAT(talker.process.Join(Watchdog()),
                  StatusIs(absl::StatusCode::kAborted, HasSubstr("SIGKILL")));
    } else if (way == absl::string_view("stop")) {
      talker.process.Stop(absl::ZeroDuration());
    }
  }
}

int64_t NowSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

// Changes its process at each moment, in no known group. Stops some time later,
// so that a failing test leaves nothing behind.
[[noreturn]] void Flee() {
  setsid();
  const int64_t end = NowSeconds() + 20;
  while (NowSeconds() < end) {
    if (fork() > 0) _exit(0);
    setsid();
  }
  _exit(0);
}

// The fleeing descendants hold its descriptor 1.
absl::Status HaveOnesWhoFlee(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  for (int i = 0; i < 3; ++i) {
    if (fork() == 0) Flee();
  }
  TENON_RETURN_IF_ERROR(test.Send("they flee", {}, Watchdog()));
  return test.Receive(Watchdog()).status();
}
TENON_SPAWN_ENTRY("have-ones-who-flee", HaveOnesWhoFlee);

TEST_F(SupervisorOddTest, NobodyFleesByForking) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  ProcessOptions options = {.entry = "have-ones-who-flee"};
  options.fds.emplace_back(ends[1]);
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker(std::move(options)));
  EXPECT_THAT(talker.channel.Receive(Watchdog()), IsOk());
  EXPECT_THAT(talker.channel.Send("end", {}, Watchdog()), IsOk());
  EXPECT_THAT(talker.process.Join(Watchdog()), IsOk());
  pollfd held = {.fd = reading.get(), .events = POLLIN, .revents = 0};
  TENON_ASSERT_OK_AND_ASSIGN(const int count,
                             PollUntil({&held, 1}, Deadline::Passed()));
  EXPECT_EQ(count, 1) << "somebody still holds it";
}

}  // namespace
}  // namespace tenon::spawn
