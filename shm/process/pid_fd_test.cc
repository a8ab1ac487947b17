// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/process/pid_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::Field;
using ::testing::HasSubstr;

static_assert(!std::is_copy_constructible_v<PidFd>);
static_assert(std::is_nothrow_move_constructible_v<PidFd>);

auto ExitedWith(int code) {
  return AllOf(Field("exit_code", &ExitStatus::exit_code, code),
               Field("signal", &ExitStatus::signal, 0));
}
auto KilledBy(int signal) {
  return AllOf(Field("exit_code", &ExitStatus::exit_code, 0),
               Field("signal", &ExitStatus::signal, signal));
}

Deadline Watchdog() { return Deadline::After(absl::Minutes(1)); }

// A child that exits with `code` on request, or when this is destroyed.
class Child {
 public:
  explicit Child(int code = 0) {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    UniqueFd wait_for_parent(fds[0]);
    go_.Reset(fds[1]);
    pid_ = fork();
    EXPECT_GE(pid_, 0);
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // If the test is killed, so is this.
    char unused;
    _exit(read(wait_for_parent.get(), &unused, 1) == 1 ? code : 254);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);  // Fails if it has been reaped, which is fine.
  }

  pid_t pid() const { return pid_; }
  void Finish() { EXPECT_EQ(write(go_.get(), "", 1), 1); }

 private:
  UniqueFd go_;
  pid_t pid_;
};

TEST(ExitStatusTest, SaysHowAProcessEnded) {
  EXPECT_EQ((ExitStatus{.exit_code = 3}).ToString(), "exited with code 3");
  EXPECT_EQ((ExitStatus{.signal = SIGKILL}).ToString(),
            "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ((ExitStatus{.signal = SIGSEGV}).ToString(),
            "was killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(
      (ExitStatus{.signal = SIGRTMIN + 2}).ToString(),
      absl::StrCat("was killed by signal ", SIGRTMIN + 2, " (SIGRTMIN+2)"));
  EXPECT_EQ((ExitStatus{.signal = 9999}).ToString(),
            "was killed by signal 9999 (unknown)");
}

TEST(ExitStatusTest, OnlyExitCodeZeroIsSuccess) {
  EXPECT_TRUE(ExitStatus{}.success());
  EXPECT_FALSE((ExitStatus{.exit_code = 1}).success());
  EXPECT_FALSE((ExitStatus{.signal = SIGTERM}).success());
}

TEST(PidFdTest, OpensItsOwnProcess) {
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd self, PidFd::Open(getpid()));
  EXPECT_FALSE(self.HasEnded());
  EXPECT_THAT(self.SendSignal(0), IsOk());
  EXPECT_EQ(fcntl(self.fd(), F_GETFD), FD_CLOEXEC);
}

TEST(PidFdTest, PidsThatCannotBeAreRefused) {
  for (pid_t pid : {0, -1, -getpid()}) {
    EXPECT_THAT(PidFd::Open(pid),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("pid ", pid))));
  }
}

TEST(PidFdTest, ReapedProcessIsNotFound) {
  pid_t pid;
  {
    Child child;
    pid = child.pid();
  }
  EXPECT_THAT(PidFd::Open(pid),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("[ESRCH]")));
}

TEST(PidFdTest, LimitOfDescriptorsIsNamed) {
  EXPECT_TRUE(PassesInChild([] {
    const UniqueFd next(dup(0));
    const auto limit = static_cast<rlim_t>(next.get());
    rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none_left = {limit, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
    const absl::Status status = PidFd::Open(getpid()).status();
    // Expectations follow later: UBSan inspects matchers through a pipe.
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 HasSubstr("ulimit -n")));
  }));
}

TEST(PidFdTest, WaitsForTheEndWithoutReaping) {
  Child child(5);
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
  EXPECT_FALSE(process.HasEnded());
  EXPECT_THAT(process.WaitForEnd(Deadline::Passed()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(process.WaitForEnd(Deadline::After(absl::Milliseconds(10))),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  child.Finish();
  EXPECT_THAT(process.WaitForEnd(Watchdog()), IsOk());
  EXPECT_TRUE(process.HasEnded());
  // Its zombie still exists: it can be signalled, and reaped.
  EXPECT_THAT(process.SendSignal(0), IsOk());
  EXPECT_THAT(process.Reap(Deadline::Passed()), IsOkAndHolds(ExitedWith(5)));
}

TEST(PidFdTest, EndIsSeenByPoll) {
  Child child;
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
  pollfd poll_fd = {.fd = process.fd(), .events = POLLIN, .revents = 0};
  child.Finish();
  EXPECT_THAT(PollUntil({&poll_fd, 1}, Watchdog()), IsOkAndHolds(1));
}

TEST(PidFdTest, ReapGivesTheExitCode) {
  for (int code : {0, 1, 77, 255}) {
    Child child(code);
    TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
    child.Finish();
    EXPECT_THAT(process.Reap(Watchdog()), IsOkAndHolds(ExitedWith(code)));
  }
}

TEST(PidFdTest, ReapGivesTheSignal) {
  for (int signal : {SIGTERM, SIGKILL, SIGUSR1}) {
    Child child;
    TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
    EXPECT_THAT(process.SendSignal(signal), IsOk());
    EXPECT_THAT(process.Reap(Watchdog()), IsOkAndHolds(KilledBy(signal)));
  }
}

TEST(PidFdTest, ReapKeepsItsDeadline) {
  Child child;
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
  EXPECT_THAT(process.Reap(Deadline::Passed()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  const Deadline deadline = Deadline::After(absl::Milliseconds(20));
  EXPECT_THAT(process.Reap(deadline),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_TRUE(deadline.has_passed());
}

TEST(PidFdTest, SecondReapSaysThatTheStatusIsTaken) {
  Child child;
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
  child.Finish();
  EXPECT_THAT(process.Reap(Watchdog()), IsOk());
  EXPECT_THAT(process.Reap(Watchdog()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("taken already")));
  EXPECT_TRUE(process.HasEnded());
  EXPECT_THAT(process.SendSignal(0), StatusIs(absl::StatusCode::kNotFound));
}

TEST(PidFdTest, OfTwoThreadsOneReaps) {
  for (int i = 0; i < 20; ++i) {
    Child child(9);
    TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
    absl::StatusOr<ExitStatus> other;
    std::thread thread([&] { other = process.Reap(Watchdog()); });
    child.Finish();
    absl::StatusOr<ExitStatus> mine = process.Reap(Watchdog());
    thread.join();
    EXPECT_NE(mine.ok(), other.ok());
    const auto& winner = mine.ok() ? mine : other;
    const auto& loser = mine.ok() ? other : mine;
    EXPECT_THAT(winner, IsOkAndHolds(ExitedWith(9)));
    EXPECT_THAT(loser, StatusIs(absl::StatusCode::kFailedPrecondition));
  }
}

TEST(PidFdTest, SomebodyElsesChildCannotBeReaped) {
  Child child;
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
  EXPECT_TRUE(PassesInChild([&] {
    // A sibling of `child` may signal and wait for it.
    EXPECT_THAT(process.SendSignal(SIGTERM), IsOk());
    EXPECT_THAT(process.WaitForEnd(Watchdog()), IsOk());
    EXPECT_THAT(process.Reap(Watchdog()),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("not a child")));
  }));
  EXPECT_THAT(process.Reap(Watchdog()), IsOkAndHolds(KilledBy(SIGTERM)));
}

TEST(PidFdTest, IgnoredSigchldTakesTheStatus) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_NE(signal(SIGCHLD, SIG_IGN), SIG_ERR);
    Child child;
    TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
    child.Finish();
    EXPECT_THAT(process.Reap(Watchdog()),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("SIGCHLD is ignored")));
    EXPECT_TRUE(process.HasEnded());
  }));
}

// A tracer that does not wait hides the exit of its tracee.
TEST(PidFdTest, TracerCannotMakeReapWaitForever) {
  Child victim(4);
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  UniqueFd attached_reader(fds[0]);
  UniqueFd attached_writer(fds[1]);
  const pid_t tracer = fork();
  ASSERT_GE(tracer, 0);
  if (tracer == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char ok = ptrace(PTRACE_SEIZE, victim.pid(), nullptr, nullptr) == 0;
    if (write(attached_writer.get(), &ok, 1) != 1) _exit(1);
    for (;;) pause();  // Never waits for its tracee.
  }
  char attached = 0;
  ASSERT_EQ(read(attached_reader.get(), &attached, 1), 1);
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd tracer_fd, PidFd::Open(tracer));
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(victim.pid()));
  if (attached) {
    victim.Finish();
    EXPECT_THAT(process.Reap(Deadline::After(absl::Milliseconds(50))),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  EXPECT_THAT(tracer_fd.SendSignal(SIGKILL), IsOk());
  EXPECT_THAT(tracer_fd.Reap(Watchdog()), IsOk());
  if (!attached) victim.Finish();
  EXPECT_THAT(process.Reap(Watchdog()), IsOkAndHolds(ExitedWith(4)));
  if (!attached) GTEST_SKIP() << "this system allows no tracing of siblings";
}

TEST(PidFdTest, SignalErrorsAreTold) {
  Child child;
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
  EXPECT_THAT(
      process.SendSignal(12345),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("signal 12345")));
}

TEST(PidFdTest, AnotherUsersProcessCannotBeSignalled) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  Child child;
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd process, PidFd::Open(child.pid()));
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(BecomeAnotherUser());
    EXPECT_THAT(process.SendSignal(SIGTERM),
                StatusIs(absl::StatusCode::kPermissionDenied));
  }));
  EXPECT_FALSE(process.HasEnded());
}

TEST(PidFdTest, AdoptTakesPidFds) {
  Child child(6);
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd opened, PidFd::Open(child.pid()));
  const int raw = dup(opened.fd());  // Without close-on-exec.
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd adopted, PidFd::Adopt(UniqueFd(raw)));
  EXPECT_EQ(adopted.fd(), raw);
  EXPECT_EQ(fcntl(raw, F_GETFD), FD_CLOEXEC);
  child.Finish();
  EXPECT_THAT(adopted.Reap(Watchdog()), IsOkAndHolds(ExitedWith(6)));
}

TEST(PidFdTest, OfPeerIsWhoMadeThePairOfSockets) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd end(ends[0]), other(ends[1]);
  const auto peer = PidFd::OfPeer(end.get());
  if (absl::IsUnimplemented(peer.status())) GTEST_SKIP() << peer.status();
  ASSERT_THAT(peer, IsOk());
  EXPECT_THAT(peer->WaitForEnd(Deadline::Passed()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  const UniqueFd alone(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_THAT(PidFd::OfPeer(alone.get()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(PidFdTest, AdoptTakesProcessesThatAreNotChildren) {
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd self, PidFd::Open(getpid()));
  EXPECT_THAT(PidFd::Adopt(UniqueFd(dup(self.fd()))), IsOk());
}

TEST(PidFdTest, AdoptRefusesEverythingElseAndClosesIt) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  const UniqueFd peer(sockets[1]);
  const std::string proc = absl::StrCat("/proc/", getpid());
  for (int raw : {-1, 1 << 20, sockets[0], open("/dev/null", O_CLOEXEC),
                  open(proc.c_str(), O_DIRECTORY | O_CLOEXEC)}) {
    EXPECT_THAT(PidFd::Adopt(UniqueFd(raw)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(absl::StrCat("descriptor ", raw))));
    EXPECT_TRUE(Becomes([&] { return fcntl(raw, F_GETFD) == -1; }));
  }
}

TEST(PidFdTest, ClosingItDoesNothingToTheProcess) {
  Child child;
  const size_t before = CountOpenFds();
  { EXPECT_THAT(PidFd::Open(child.pid()), IsOk()); }
  EXPECT_EQ(CountOpenFds(), before);
  EXPECT_EQ(kill(child.pid(), 0), 0);
}

TEST(PidFdTest, MovesLeaveOneOwner) {
  Child child;
  TENON_ASSERT_OK_AND_ASSIGN(PidFd first, PidFd::Open(child.pid()));
  const int raw = first.fd();
  PidFd second(std::move(first));
  EXPECT_EQ(second.fd(), raw);
  TENON_ASSERT_OK_AND_ASSIGN(PidFd self, PidFd::Open(getpid()));
  const int closed = self.fd();
  self = std::move(second);
  EXPECT_EQ(self.fd(), raw);
  EXPECT_EQ(fcntl(closed, F_GETFD), -1);
  EXPECT_FALSE(self.HasEnded());
}

TEST(PidFdTest, ClosedByAnotherIsAnErrorAndNoEnd) {
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd self, PidFd::Open(getpid()));
  const UniqueFd saved(fcntl(self.fd(), F_DUPFD_CLOEXEC, 0));
  ASSERT_EQ(close(self.fd()), 0);
  EXPECT_THAT(self.WaitForEnd(Watchdog()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE(self.HasEnded());
  ASSERT_EQ(dup3(saved.get(), self.fd(), O_CLOEXEC), self.fd());
}

TEST(PidFdDeathTest, WaitingWithWhatWasMovedFromIsAProgrammingError) {
  TENON_ASSERT_OK_AND_ASSIGN(PidFd self, PidFd::Open(getpid()));
  const PidFd other = std::move(self);
  EXPECT_DEATH(self.HasEnded(), "moved from");
}

}  // namespace
}  // namespace tenon
