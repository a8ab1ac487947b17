// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Parents that reap or fork by themselves, and children that write into their
// control channel or leave it to other processes.

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/ancillary.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/report/report.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/supervisor/program.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

class ProcessOddTest : public ChildTest {};

// ---- Parents ----

absl::Status ReturnOrExit(Child& child) {
  if (child.argument() == "exit") _exit(3);
  return child.argument().empty() ? absl::OkStatus()
                                  : absl::NotFoundError(child.argument());
}
TENON_SPAWN_ENTRY("return-or-exit", ReturnOrExit);

// During its lifetime, the kernel reaps the children of this process at once.
class IgnoredSigchld {
 public:
  IgnoredSigchld() : before_(signal(SIGCHLD, SIG_IGN)) {}
  ~IgnoredSigchld() { signal(SIGCHLD, before_); }

 private:
  const sighandler_t before_;
};

absl::Status HowItEnds(const std::string& argument) {
  absl::StatusOr<Process> process =
      Process::Start({.entry = "return-or-exit", .argument = argument});
  TENON_RETURN_IF_ERROR(process.status());
  const absl::Status status = process->Join(Watchdog());
  EXPECT_TRUE(process->exit_status().has_value());
  EXPECT_EQ(process->Join(Watchdog()), status);
  return status;
}

TEST_F(ProcessOddTest, ReportTravelsWhenTheKernelReaps) {
  const IgnoredSigchld ignored;
  EXPECT_THAT(HowItEnds(""), IsOk());
  EXPECT_THAT(HowItEnds("no image"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(": no image")));
}

TEST_F(ProcessOddTest, ExitStatusTravelsWhenTheKernelReaps) {
  const IgnoredSigchld ignored;
  EXPECT_THAT(HowItEnds("exit"), StatusIs(absl::StatusCode::kAborted,
                                          HasSubstr("exited with code 3")));
}

TEST_F(ProcessOddTest, DestructorAndStopWorkWhenTheKernelReaps) {
  const IgnoredSigchld ignored;
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Talker talker,
                               StartTalker({.entry = kEcho}));
  }
  EXPECT_FALSE(HasChildren());
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  talker.process.Stop(absl::InfiniteDuration());
  EXPECT_FALSE(HasChildren());
}

TEST_F(ProcessOddTest, SomebodyElseReapsTheSupervisor) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Process process,
      Process::Start({.entry = "return-or-exit", .argument = "exit"}));
  EXPECT_EQ(waitpid(process.pid(), nullptr, 0), -1) << "it is no child";
  EXPECT_GT(waitpid(-1, nullptr, 0), 0);
  EXPECT_THAT(
      process.Join(Watchdog()),
      StatusIs(absl::StatusCode::kAborted, HasSubstr("exited with code 3")));
}

// As a daemon may be: Tenon's own descriptors take the numbers 0 to 2.
TEST_F(ProcessOddTest, AParentWithoutStandardStreams) {
  const std::string file =
      absl::StrCat(testing::TempDir(), "/without_", getpid());
  EXPECT_TRUE(PassesInChild([&] {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) close(fd);
    for (const StartMethod method : AllStartMethods()) {
      for (const bool tee : {false, true}) {
        SCOPED_TRACE(absl::StrCat(StartMethodName(method), tee ? ", tee" : ""));
        ProcessOptions options = {.entry = "return-or-exit",
                                  .argument = "no image",
                                  .method = method,
                                  .tee = tee,
                                  .keep_stderr_tail = tee};
        if (tee) options.stdout_file = options.stderr_file = file;
        TENON_ASSERT_OK_AND_ASSIGN(Process process,
                                   Process::Start(std::move(options)));
        EXPECT_THAT(
            process.Join(Watchdog()),
            StatusIs(absl::StatusCode::kNotFound, HasSubstr(": no image")));
      }
    }
    StopForkServer();
  }));
  unlink(file.c_str());
}

TEST_F(ProcessOddTest, InertInAFork) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
  std::optional<Process> process(std::move(talker.process));
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(
        process->Join(Deadline::Never()),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr(process->Describe()), HasSubstr("fork"))));
    EXPECT_THAT(process->Signal(SIGKILL),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    process->Stop(absl::ZeroDuration());
    process.reset();
  }));
  EXPECT_THAT(Ping(talker.channel), IsOk());
}

TEST_F(ProcessOddTest, ForkCanStartChildrenOfItsOwn) {
  EXPECT_TRUE(PassesInChild([] {
    TENON_ASSERT_OK_AND_ASSIGN(Talker talker, StartTalker({.entry = kEcho}));
    EXPECT_THAT(Ping(talker.channel), IsOk());
    talker.channel.Release().Reset();
    EXPECT_THAT(talker.process.Join(Watchdog()), IsOk());
  }));
}

// ---- Children ----

constexpr char kDieEarly[] = "TENON_TEST_DIE_EARLY";

// Ends a child before it reaches main(), like a library that cannot be loaded.
[[maybe_unused]] const bool die_early = [] {
  if (getenv(kDieEarly) != nullptr) _exit(5);
  return true;
}();

// The result of Start(), or, if Start() returned before the failure, of Join().
absl::Status StartAndJoin(size_t fd_count) {
  std::vector<UniqueFd> fds;
  for (size_t i = 0; i < fd_count; ++i) fds.emplace_back(dup(STDERR_FILENO));
  TENON_ASSIGN_OR_RETURN(
      Process process,
      Process::Start({.entry = "return-or-exit", .fds = std::move(fds)}));
  return process.Join(Watchdog());
}

TEST_F(ProcessOddTest, DiesBeforeInit) {
  ASSERT_EQ(setenv(kDieEarly, "1", 1), 0);
  for (const size_t fd_count : {0, 1000}) {
    const absl::Status status = StartAndJoin(fd_count);
    EXPECT_TRUE(absl::IsAborted(status) || absl::IsUnavailable(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("exited with code 5"));
  }
  {
    const IgnoredSigchld ignored;
    const absl::Status status = StartAndJoin(0);
    EXPECT_TRUE(absl::IsAborted(status) || absl::IsUnavailable(status));
    EXPECT_THAT(std::string(status.message()), HasSubstr("exited with code 5"));
  }
  ASSERT_EQ(unsetenv(kDieEarly), 0);
}

// Writes into the control channel itself.
absl::Status Misreport(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel control,
                         Channel::Adopt(UniqueFd(dup(kControlFd))));
  if (child.argument() == "bytes") {
    if (write(kControlFd, "garbage", 7) != 7) return absl::InternalError("");
  } else if (child.argument() == "message") {
    TENON_RETURN_IF_ERROR(control.Send("garbage", {}, Watchdog()));
  } else if (child.argument() == "report") {
    TENON_RETURN_IF_ERROR(SendReport(control, {absl::OkStatus()}));
  } else if (child.argument() == "flood") {
    while (control.Send("garbage", {}, Deadline::Passed()).ok()) {
    }
  }
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("misreport", Misreport);

TEST_F(ProcessOddTest, GarbageInTheControlChannelIsDataLoss) {
  for (const std::string way : {"bytes", "message", "report", "flood"}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Process process,
        Process::Start({.entry = "misreport", .argument = way}));
    EXPECT_THAT(
        process.Join(Watchdog()),
        StatusIs(absl::StatusCode::kDataLoss, HasSubstr(process.Describe())))
        << way;
  }
}

// Closes its descriptors as a daemon does, and opens a socket: the first free
// number is that of the control channel. Exits with the data from the socket.
absl::Status CloseAllAndOpenASocket(Child& child) {
  const bool fails = child.argument() == "fails";
  const UniqueFd kept = child.TakeFd(0);
  const int test = fcntl(kept.get(), F_DUPFD, 100);
  for (int fd = 3; fd < 100; ++fd) close(fd);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) _exit(9);
  // The test has the other end: no report may arrive there.
  iovec bytes = {.iov_base = ends, .iov_len = 1};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  ControlBuffer control;
  AttachFds({&ends[1], 1}, &control, &message);
  if (sendmsg(test, &message, 0) != 1) _exit(8);
  close(ends[1]);
  if (ends[0] != kControlFd) _exit(7);
  return fails ? absl::NotFoundError("not sent") : absl::OkStatus();
}
TENON_SPAWN_ENTRY("close-all-and-open-a-socket", CloseAllAndOpenASocket);

TEST_F(ProcessOddTest, AStrangersSocketDoesNotGetTheReport) {
  for (const char* how : {"fails", "succeeds"}) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd test(ends[0]);
    ProcessOptions options = {.entry = "close-all-and-open-a-socket",
                              .argument = how};
    options.fds.emplace_back(ends[1]);
    TENON_ASSERT_OK_AND_ASSIGN(Process process,
                               Process::Start(std::move(options)));
    const absl::Status status = process.Join(Watchdog());
    if (how == absl::string_view("fails")) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted,
                                   HasSubstr("exited with code 1")));
    } else {
      EXPECT_THAT(status, IsOk());
    }
    char byte = 0;
    iovec bytes = {.iov_base = &byte, .iov_len = 1};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    ControlBuffer control;
    AttachRoom(&control, &message);
    ASSERT_EQ(recvmsg(test.get(), &message, MSG_CMSG_CLOEXEC), 1);
    const Ancillary came = TakeAncillary(&message);
    ASSERT_EQ(came.fds.size(), 1u);
    char report[256];
    EXPECT_EQ(recv(came.fds[0].get(), report, sizeof(report), MSG_DONTWAIT), 0)
        << how;
  }
}

// Leaves a fork behind that has all of the child's descriptors, including the
// control channel, until the test closes its channel.
absl::Status LeaveAFork(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel channel, TakeChannel(child));
  if (fork() == 0) {
    alarm(120);
    char byte;
    while (read(channel.fd(), &byte, 1) > 0) {
    }
    _exit(0);
  }
  return absl::NotFoundError("reported");
}
TENON_SPAWN_ENTRY("leave-a-fork", LeaveAFork);

TEST_F(ProcessOddTest, JoinDoesNotWaitForWhatTheChildLeavesBehind) {
  TENON_ASSERT_OK_AND_ASSIGN(Talker talker,
                             StartTalker({.entry = "leave-a-fork"}));
  EXPECT_THAT(talker.process.Join(Watchdog()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("reported")));
}

}  // namespace
}  // namespace tenon::spawn
