// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/forked_child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/one_thread.h"
#include "tenon/shm/testing/reporter.h"

namespace tenon {
namespace {

// Sends failed expectations of a child to its parent.
class Forwarder : public testing::EmptyTestEventListener {
 public:
  explicit Forwarder(const Reporter& reporter) : reporter_(reporter) {}

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* file = result.file_name();
    reporter_.Fail(absl::StrCat(file == nullptr ? "?" : file, ":",
                                result.line_number(), ": ", result.message()));
  }

 private:
  const Reporter reporter_;
};

void ForwardExpectations(const Reporter& reporter) {
  testing::TestEventListeners& listeners =
      testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Forwarder(reporter));  // Owned by GoogleTest.
}

// A timer that ends this process with a signal that it cannot block, also while
// it is stopped. Not inherited by its own children, and gone after exec().
void StartWatchdog(absl::Duration time) {
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer;
  TENON_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0,
              "timer_create");
  itimerspec when = {};
  when.it_value = absl::ToTimespec(time);
  TENON_CHECK(timer_settime(timer, 0, &when, nullptr) == 0, "timer_settime");
}

// noexcept: an exception of `body` must not reach the forked copy of the test.
[[noreturn]] void RunChild(
    const ChildOptions& options, pid_t parent, const Reporter& reporter,
    const std::function<void(const Reporter&)>& body) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // It died before that call.
  StartWatchdog(options.watchdog);
  ForwardExpectations(reporter);
  if (options.traced && ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
    reporter.Fail("ptrace(PTRACE_TRACEME) is not permitted");
    _exit(1);
  }
  body(reporter);
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace

ForkedChild::ForkedChild(const ChildOptions& options, ReportPipe pipe,
                         PidFd pid_fd, pid_t pid)
    : options_(options),
      pipe_(std::move(pipe)),
      pid_fd_(std::move(pid_fd)),
      pid_(pid) {}

ForkedChild::ForkedChild(ForkedChild&& other) noexcept
    : options_(std::move(other.options_)),
      pipe_(std::move(other.pipe_)),
      pid_fd_(std::move(other.pid_fd_)),
      pid_(std::exchange(other.pid_, -1)),
      watchdog_(other.watchdog_),
      end_(other.end_) {}

ForkedChild& ForkedChild::operator=(ForkedChild&& other) noexcept {
  if (this == &other) return *this;
  Kill();
  options_ = std::move(other.options_);
  pipe_ = std::move(other.pipe_);
  pid_fd_ = std::move(other.pid_fd_);
  pid_ = std::exchange(other.pid_, -1);
  watchdog_ = other.watchdog_;
  end_ = other.end_;
  return *this;
}

ForkedChild::~ForkedChild() { Kill(); }

absl::StatusOr<ForkedChild> ForkedChild::Fork(
    const ChildOptions& options,
    const std::function<void(const Reporter&)>& body) {
  if (!options.may_have_threads) TENON_RETURN_IF_ERROR(CheckOneThread());
  TENON_ASSIGN_OR_RETURN(ReportPipe pipe, ReportPipe::Create());
  std::fflush(nullptr);  // Or the child would print it once more.
  const pid_t parent = getpid();
  const Deadline watchdog = Deadline::After(options.watchdog);
  const pid_t pid = fork();
  if (pid < 0) return PosixError(errno, "fork", options.name);
  if (pid == 0) RunChild(options, parent, pipe.reporter(), body);
  absl::StatusOr<PidFd> pid_fd = PidFd::Open(pid);
  if (!pid_fd.ok()) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return pid_fd.status();
  }
  ForkedChild child(options, std::move(pipe), *std::move(pid_fd), pid);
  child.watchdog_ = watchdog;
  return child;
}

absl::StatusOr<ExitStatus> ForkedChild::Wait(Deadline deadline) {
  while (pid_ > 0) {
    pollfd fds[] = {{.fd = pid_fd_.fd(), .events = POLLIN, .revents = 0},
                    {.fd = pipe_.fd(), .events = POLLIN, .revents = 0}};
    TENON_ASSIGN_OR_RETURN(const int ready, PollUntil(fds, deadline));
    pipe_.Drain();
    if (fds[0].revents != 0) {
      TENON_ASSIGN_OR_RETURN(end_, pid_fd_.Reap(deadline));
      pid_ = -1;
    } else if (ready == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(options_.name, " has not ended"));
    }
  }
  return end_;
}

std::string ForkedChild::Describe(const ExitStatus& end) const {
  if (end.signal == SIGKILL && watchdog_.has_passed()) {
    return absl::StrCat("was killed by its watchdog after ",
                        absl::FormatDuration(options_.watchdog));
  }
  return end.ToString();
}

testing::AssertionResult ForkedChild::EndsWell() {
  // Longer than its own watchdog: the child's own should fire first.
  const absl::StatusOr<ExitStatus> end =
      Wait(Deadline::After(2 * options_.watchdog));
  if (!end.ok()) return testing::AssertionFailure() << end.status();
  if (end->success() && report().failures.empty()) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure()
         << options_.name << " " << Describe(*end) << "\n"
         << absl::StrJoin(report().failures, "\n");
}

void ForkedChild::SetReaped(const ExitStatus& end) {
  end_ = end;
  pid_ = -1;
}

void ForkedChild::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  // A killed process ends. If this process traces it, a stop may be reported
  // before that.
  int status = 0;
  pid_t got;
  do {
    got = waitpid(pid_, &status, __WALL);
  } while ((got < 0 && errno == EINTR) || (got == pid_ && WIFSTOPPED(status)));
  SetReaped(WIFEXITED(status) ? ExitStatus{.exit_code = WEXITSTATUS(status)}
                              : ExitStatus{.signal = WTERMSIG(status)});
}

}  // namespace tenon
