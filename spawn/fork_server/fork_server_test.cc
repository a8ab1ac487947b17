// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/fork_server/fork_server.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_hazard.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr StartMethod kByServer = StartMethod::kForkServer;

class ForkServerTest : public ChildTest {
 protected:
  void TearDown() override {
    StopForkServer();
    ChildTest::TearDown();
  }
};

int preloaded = 0;

absl::Status Load(Child&) {
  preloaded += 40;
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("load", Load);

absl::Status LoadAndFail(Child&) { return absl::NotFoundError("no model"); }
TENON_SPAWN_ENTRY("load-and-fail", LoadAndFail);

absl::Status LoadAThread(Child&) {
  std::thread([] {
    for (;;) pause();
  }).detach();
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("load-a-thread", LoadAThread);

// As a driver of CUDA does.
absl::Status LoadADriver(Child&) {
  NoteForkHazard("a driver has been initialized");
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("load-a-driver", LoadADriver);

// Answers the question in the argument.
absl::Status Tell(Child& child) {
  const std::string& what = child.argument();
  if (what == "preloaded") {
    return Say(child, absl::StrCat(preloaded, " ", child.index()));
  }
  // A supervisor is between the server and its child.
  if (what == "server") return Say(child, absl::StrCat(ParentPid(getppid())));
  if (what == "directory") {
    return Say(child, std::filesystem::current_path().string());
  }
  if (what == "fds") {
    // Inherited descriptors would be above the number of those sent by this
    // process.
    for (int fd = 30; fd < 300; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0) return absl::InternalError("inherited");
    }
    return Say(child, "none");
  }
  const char* value = getenv(what.c_str());
  return Say(child, value == nullptr ? "(none)" : value);
}
TENON_SPAWN_ENTRY("tell", Tell);

absl::StatusOr<std::string> Ask(const std::string& what,
                                ProcessOptions options = {}) {
  options.entry = "tell";
  options.argument = what;
  options.method = kByServer;
  return AnswerOf(std::move(options));
}

TEST_F(ForkServerTest, ChildrenHaveWhatWasPreloaded) {
  EXPECT_THAT(StartForkServer({.preload = {"load", "load"}}), IsOk());
  EXPECT_THAT(StartForkServer(), StatusIs(absl::StatusCode::kAlreadyExists));
  preloaded = 1;  // Not inherited from the server.
  EXPECT_THAT(Ask("preloaded", {.index = 3}), IsOkAndHolds("80 3"));
  EXPECT_THAT(Ask("preloaded"), IsOkAndHolds("80 0"));
  preloaded = 0;
}

TEST_F(ForkServerTest, StartsByItselfAndServesAll) {
  TENON_ASSERT_OK_AND_ASSIGN(const std::string one, Ask("server"));
  TENON_ASSERT_OK_AND_ASSIGN(const std::string two, Ask("server"));
  EXPECT_EQ(one, two);
  EXPECT_NE(one, absl::StrCat(getpid()));
}

TEST_F(ForkServerTest, SurroundingsAreThoseOfTheMoment) {
  EXPECT_THAT(StartForkServer(), IsOk());
  ASSERT_EQ(setenv("TENON_TEST_LATER", "set", 1), 0);
  EXPECT_THAT(Ask("TENON_TEST_LATER"), IsOkAndHolds("set"));
  EXPECT_THAT(
      Ask("TENON_TEST_LATER", {.environment = {{"TENON_TEST_LATER", "mine"}}}),
      IsOkAndHolds("mine"));
  ASSERT_EQ(unsetenv("TENON_TEST_LATER"), 0);
  EXPECT_THAT(Ask("TENON_TEST_LATER"), IsOkAndHolds("(none)"));
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path("/");
  EXPECT_THAT(Ask("directory"), IsOkAndHolds("/"));
  std::filesystem::current_path(before);
  EXPECT_THAT(Ask("directory"), IsOkAndHolds(before.string()));
}

TEST_F(ForkServerTest, NothingIsInherited) {
  const UniqueFd leak(fcntl(STDERR_FILENO, F_DUPFD, 100));
  EXPECT_THAT(Ask("fds"), IsOkAndHolds("none"));
}

TEST_F(ForkServerTest, FailedPreloadIsToldByTheStart) {
  EXPECT_THAT(StartForkServer({.preload = {"load-and-fail"}}), IsOk());
  EXPECT_THAT(Ask("server"), StatusIs(absl::StatusCode::kNotFound,
                                      HasSubstr("preloaded 'load-and-fail': no "
                                                "model")));
  StopForkServer();
  EXPECT_THAT(StartForkServer({.preload = {"no such"}}), IsOk());
  EXPECT_THAT(Ask("server"), StatusIs(absl::StatusCode::kNotFound,
                                      HasSubstr("not a TENON_SPAWN_ENTRY")));
}

TEST_F(ForkServerTest, ThreadsInTheServerAreRefused) {
  EXPECT_THAT(StartForkServer({.preload = {"load-a-thread"}}), IsOk());
  EXPECT_THAT(Ask("server"), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("2 threads")));
}

TEST_F(ForkServerTest, ADriverThatNoForkSurvivesIsRefused) {
  EXPECT_THAT(StartForkServer({.preload = {"load-a-driver"}}), IsOk());
  EXPECT_THAT(Ask("server"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("the fork server cannot start children"),
                             HasSubstr("a driver has been initialized"))));
}

// ---- Ends ----

absl::Status End(Child& child) {
  const std::string& how = child.argument();
  if (how == "error") return absl::NotFoundError("no image");
  if (how == "exit") _exit(12);
  if (how == "kill") raise(SIGKILL);
  if (how == "stay") {
    for (;;) pause();
  }
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("end", End);

absl::StatusOr<Process> StartOne(const std::string& how) {
  return Process::Start({.entry = "end", .argument = how, .method = kByServer});
}

TEST_F(ForkServerTest, EndsAreTold) {
  TENON_ASSERT_OK_AND_ASSIGN(Process ok, StartOne("ok"));
  EXPECT_THAT(ok.Join(Watchdog()), IsOk());
  EXPECT_TRUE(ok.exit_status()->success());
  EXPECT_GT(ok.exit_status()->peak_rss_bytes, 0);
  TENON_ASSERT_OK_AND_ASSIGN(Process error, StartOne("error"));
  EXPECT_THAT(error.Join(Watchdog()), StatusIs(absl::StatusCode::kNotFound));
  TENON_ASSERT_OK_AND_ASSIGN(Process exits, StartOne("exit"));
  EXPECT_EQ(GetProcessExited(exits.Join(Watchdog()))->exit_code, 12);
  TENON_ASSERT_OK_AND_ASSIGN(Process killed, StartOne("kill"));
  EXPECT_EQ(GetProcessExited(killed.Join(Watchdog()))->signal, SIGKILL);
}

TEST_F(ForkServerTest, AGroupHasOneFate) {
  for (int round = 0; round < 20; ++round) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Processes four,
        Processes::Start(
            4, {.entry = "end", .argument = "stay", .method = kByServer}));
    EXPECT_THAT(four[2].Kill(), IsOk());
    const auto exited = GetProcessExited(four.Join(Watchdog()));
    ASSERT_TRUE(exited.has_value());
    EXPECT_EQ(exited->index, 2);
    EXPECT_EQ(four[0].exit_status()->signal, SIGTERM);
  }
}

TEST_F(ForkServerTest, DroppedChildrenAreKilled) {
  TENON_ASSERT_OK_AND_ASSIGN(const Process one, StartOne("stay"));
}

TEST_F(ForkServerTest, DeadServerIsReplaced) {
  TENON_ASSERT_OK_AND_ASSIGN(const std::string first, Ask("server"));
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd server, PidFd::Open(std::stoi(first)));
  EXPECT_THAT(server.SendSignal(SIGKILL), IsOk());
  EXPECT_THAT(server.WaitForEnd(Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const std::string second, Ask("server"));
  EXPECT_NE(first, second);
}

// Ends the server, and with a new one also the supervisor of the old. A start
// may fail while a child that has not run yet has the old server's channel.
void ReplaceServer(pid_t pid) {
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd server, PidFd::Open(pid));
  EXPECT_THAT(server.SendSignal(SIGKILL), IsOk());
  EXPECT_THAT(server.WaitForEnd(Watchdog()), IsOk());
  EXPECT_TRUE(Becomes([] { return StartOne("stay").ok(); }));
}

TEST_F(ForkServerTest, ChildOutlivesItsServerAndItsFateIsTold) {
  TENON_ASSERT_OK_AND_ASSIGN(const std::string server, Ask("server"));
  TENON_ASSERT_OK_AND_ASSIGN(Process one, StartOne("stay"));
  ReplaceServer(std::stoi(server));
  EXPECT_TRUE(one.IsAlive());
  EXPECT_THAT(one.Kill(), IsOk());
  EXPECT_THAT(one.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("SIGKILL")));
}

// In a child of a child of the server, before its first own step: waits for the
// end of the server, and of those that its supervisor kills with it.
void WaitForTheServersEnd() {
  static const pid_t server = getppid();
  static thread_local bool is_server = true;
  if (std::exchange(is_server, false)) return;
  const Deadline deadline = Watchdog();
  while (kill(server, 0) == 0 && !deadline.has_passed()) usleep(1000);
  usleep(200'000);
}

absl::Status LoadAStall(Child&) {
  pthread_atfork(nullptr, nullptr, WaitForTheServersEnd);
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("load-a-stall", LoadAStall);

TEST_F(ForkServerTest, AChildThatHasNotRunYetOutlivesItsServer) {
  ASSERT_THAT(StartForkServer({.preload = {"load-a-stall"}}), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(Process one, StartOne("stay"));
  ReplaceServer(ParentPid(ParentPid(one.pid())));
  EXPECT_THAT(one.Join(Deadline::After(absl::Milliseconds(500))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(one.Kill(), IsOk());
  EXPECT_THAT(one.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("SIGKILL")));
}

TEST_F(ForkServerTest, StoppingItEndsItsChildren) {
  TENON_ASSERT_OK_AND_ASSIGN(Process one, StartOne("stay"));
  StopForkServer();
  StopForkServer();
  EXPECT_THAT(one.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("SIGKILL")));
}

// A parent with a server's children, which have left their group; it sends
// their pidfds and waits to be killed.
absl::Status LeaveGroup(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  const pid_t pid = fork();
  if (pid == 0) {
    setsid();
    for (;;) pause();
  }
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  TENON_ASSIGN_OR_RETURN(const PidFd other, PidFd::Open(pid));
  const int fds[] = {self.fd(), other.fd()};
  TENON_RETURN_IF_ERROR(test.Send("", fds, Watchdog()));
  for (;;) pause();
}
TENON_SPAWN_ENTRY("leave-group", LeaveGroup);

absl::Status ServeHere(Child& child) {
  ProcessOptions options = {.entry = "leave-group", .method = kByServer};
  options.fds.push_back(child.TakeFd(0));
  TENON_ASSIGN_OR_RETURN(const Process one, Process::Start(std::move(options)));
  for (;;) pause();
}
TENON_SPAWN_ENTRY("serve-here", ServeHere);

TEST_F(ForkServerTest, NobodyIsLeftWhenTheParentIsKilled) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker parent,
                             StartTalker({.entry = "serve-here"}));
  TENON_ASSERT_OK_AND_ASSIGN(Message born, parent.channel.Receive(Watchdog()));
  ASSERT_EQ(born.fds.size(), 2u);
  EXPECT_THAT(parent.process.Kill(), IsOk());
  parent.process.Join(Watchdog()).IgnoreError();
  for (UniqueFd& fd : born.fds) {
    TENON_ASSERT_OK_AND_ASSIGN(const PidFd one, PidFd::Adopt(std::move(fd)));
    EXPECT_THAT(one.WaitForEnd(Watchdog()), IsOk());
  }
}

TEST_F(ForkServerTest, ManyAtOnceFromManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 25; ++round) {
        absl::StatusOr<Process> one = StartOne("ok");
        ASSERT_THAT(one, IsOk());
        EXPECT_THAT(one->Join(Watchdog()), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tenon::spawn
