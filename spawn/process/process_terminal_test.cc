// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Children and the environment of their parent: nohup, its terminal, Ctrl-Z;
// and a thread that closes a descriptor of a hostile peer.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

class ProcessTerminalTest : public ChildTest {
 protected:
  void TearDown() override {
    StopForkServer();
    ChildTest::TearDown();
  }
};

// As in nohup and servers: these ignored, the rest handled or default.
TEST_F(ProcessTerminalTest, IgnoredSignalsStayIgnored) {
  const sighandler_t hang_up = signal(SIGHUP, SIG_IGN);
  const sighandler_t broken_pipe = signal(SIGPIPE, SIG_IGN);
  const sighandler_t user = signal(
      SIGUSR1, +[](int) {});
  for (const StartMethod method :
       {StartMethod::kSpawn, StartMethod::kFork, StartMethod::kForkServer}) {
    TENON_ASSERT_OK_AND_ASSIGN(Talker talker,
                               StartTalker({.entry = kEcho, .method = method}));
    EXPECT_THAT(Ping(talker.channel), IsOk());
    EXPECT_THAT(talker.process.Signal(SIGHUP), IsOk());
    EXPECT_THAT(talker.process.Signal(SIGPIPE), IsOk());
    EXPECT_THAT(Ping(talker.channel), IsOk());
    EXPECT_THAT(talker.process.Signal(SIGUSR1), IsOk());
    EXPECT_THAT(talker.process.Join(Watchdog()),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("SIGUSR1")));
    // The server ignores it; its children do not.
    TENON_ASSERT_OK_AND_ASSIGN(talker,
                               StartTalker({.entry = kEcho, .method = method}));
    EXPECT_THAT(Ping(talker.channel), IsOk());
    EXPECT_THAT(talker.process.Signal(SIGINT), IsOk());
    EXPECT_THAT(talker.process.Join(Watchdog()),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("SIGINT")));
  }
  signal(SIGHUP, hang_up);
  signal(SIGPIPE, broken_pipe);
  signal(SIGUSR1, user);
}

absl::Status TellStdin(Child& child) {
  char target[64] = {};
  if (readlink("/proc/self/fd/0", target, sizeof(target) - 1) < 0)
    target[0] = '?';
  return Say(child, target);
}
TENON_SPAWN_ENTRY("tell-stdin", TellStdin);

TEST_F(ProcessTerminalTest, StdinIsNullUnlessAskedFor) {
  const UniqueFd saved(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10));
  const UniqueFd zero(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(dup2(zero.get(), STDIN_FILENO), STDIN_FILENO);
  for (const StartMethod method :
       {StartMethod::kSpawn, StartMethod::kFork, StartMethod::kForkServer}) {
    EXPECT_THAT(AnswerOf({.entry = "tell-stdin", .method = method}),
                IsOkAndHolds("/dev/null"));
    EXPECT_THAT(
        AnswerOf(
            {.entry = "tell-stdin", .method = method, .inherit_stdin = true}),
        IsOkAndHolds("/dev/zero"));
  }
  ASSERT_EQ(dup2(saved.get(), STDIN_FILENO), STDIN_FILENO);
}

// ---- Reading from the terminal ----

absl::Status ReadLine(Child&) {
  char byte = 0;
  return read(STDIN_FILENO, &byte, 1) == 1 ? absl::OkStatus()
                                           : absl::UnavailableError("read");
}
TENON_SPAWN_ENTRY("read-line", ReadLine);

// Whether Join() names the stop before `Watchdog()`.
absl::Status ExpectNamed(absl::Status joined) {
  if (absl::StrContains(joined.message(), "SIGTTIN")) return absl::OkStatus();
  return absl::InternalError(joined.ToString());
}

// Leads a terminal session.
absl::Status ReadInTheBackground(Child&) {
  signal(SIGHUP, SIG_IGN);  // As the terminal is closed.
  const UniqueFd terminal(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.valid() || grantpt(terminal.get()) != 0 ||
      unlockpt(terminal.get()) != 0 || setsid() < 0) {
    return absl::UnimplementedError("no terminals here");
  }
  const UniqueFd mine(open(ptsname(terminal.get()), O_RDWR | O_CLOEXEC));
  if (!mine.valid() || ioctl(mine.get(), TIOCSCTTY, 0) != 0 ||
      dup2(mine.get(), STDIN_FILENO) != STDIN_FILENO) {
    return absl::UnimplementedError("no terminal of its own");
  }
  TENON_ASSIGN_OR_RETURN(Process one, Process::Start({.entry = "read-line",
                                                      .inherit_stdin = true}));
  const auto join_one = [&] { return one.Join(Deadline::Passed()); };
  Becomes([&] { return ExpectNamed(join_one()).ok(); });
  TENON_RETURN_IF_ERROR(ExpectNamed(join_one()));
  TENON_ASSIGN_OR_RETURN(
      Processes two,
      Processes::Start(2, {.entry = "read-line", .inherit_stdin = true}));
  const auto join_two = [&] { return two.Join(Deadline::Passed()); };
  Becomes([&] { return ExpectNamed(join_two()).ok(); });
  return ExpectNamed(join_two());
}
TENON_SPAWN_ENTRY("read-in-the-background", ReadInTheBackground);

TEST_F(ProcessTerminalTest, TheErrorNamesTheStopOfAWorkerThatReads) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Process process,
      Process::Start({.entry = "read-in-the-background", .own_group = false}));
  const absl::Status how = process.Join(Watchdog());
  if (absl::IsUnimplemented(how)) GTEST_SKIP() << how;
  EXPECT_THAT(how, IsOk());
}

// ---- Ctrl-Z ----

// Starts a child with a channel to the test, and stays.
absl::Status HaveAWorker(Child& child) {
  ProcessOptions options = {.entry = kEcho,
                            .own_group = child.argument() == "own group"};
  options.fds.push_back(child.TakeFd(0));
  TENON_ASSIGN_OR_RETURN(const Process worker,
                         Process::Start(std::move(options)));
  for (;;) pause();
}
TENON_SPAWN_ENTRY("have-a-worker", HaveAWorker);

// A terminal sends it to the process group of the job.
TEST_F(ProcessTerminalTest, WorkersGoOnWhileTheJobIsStopped) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Talker job,
      StartTalker({.entry = "have-a-worker", .argument = "own group"}));
  EXPECT_THAT(Ping(job.channel), IsOk());
  ASSERT_EQ(kill(-job.process.pid(), SIGSTOP), 0);
  EXPECT_THAT(job.process.Join(Deadline::Passed()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_TRUE(Becomes([&] {
    return absl::StrContains(job.process.Join(Deadline::Passed()).message(),
                             "it is stopped");
  }));
  EXPECT_THAT(Ping(job.channel), IsOk());
}

// Without a group of their own they are part of the job.
TEST_F(ProcessTerminalTest, WorkersWithoutAGroupStopWithTheJob) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Talker job, StartTalker({.entry = "have-a-worker", .argument = "no"}));
  EXPECT_THAT(Ping(job.channel), IsOk());
  ASSERT_EQ(kill(-job.process.pid(), SIGSTOP), 0);
  EXPECT_THAT(job.channel.Send("ping", {}, Watchdog()), IsOk());
  EXPECT_THAT(
      job.channel.Receive(Deadline::After(absl::Milliseconds(100))).status(),
      StatusIs(absl::StatusCode::kDeadlineExceeded));
  ASSERT_EQ(kill(-job.process.pid(), SIGCONT), 0);
  EXPECT_THAT(job.channel.Receive(Watchdog()), IsOk());
}

// ---- A fork while a descriptor is being closed ----

// A socket whose close() takes a second: its peer does not read.
UniqueFd LingeringSocket(UniqueFd& peer) {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  UniqueFd end(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(listener.get(), any, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), any, &size) != 0 ||
      connect(end.get(), any, size) != 0) {
    return UniqueFd();
  }
  peer = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const linger wait = {.l_onoff = 1, .l_linger = 1};
  setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof(wait));
  const std::vector<char> bytes(1 << 16);
  while (send(end.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
  }
  return end;
}

TEST_F(ProcessTerminalTest, AForkWaitsForThreadsThatCloseWhatWasReceived) {
  UniqueFd peer;
  UniqueFd end = LingeringSocket(peer);
  ASSERT_TRUE(end.valid());
  CloseReceived(std::move(end));
  ASSERT_EQ(CountUnclosed(), 1u);
  EXPECT_THAT(AnswerOf({.entry = "tell-stdin", .method = StartMethod::kFork}),
              IsOk());
}

}  // namespace
}  // namespace tenon::spawn
