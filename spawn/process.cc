// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/process.h"

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/fork_count.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/shm/sharing_strategy.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/entry.h"
#include "tenon/spawn/handover.h"
#include "tenon/spawn/init.h"
#include "tenon/spawn/launch.h"
#include "tenon/spawn/report.h"
#include "tenon/spawn/start_message.h"

namespace tenon::spawn {
namespace {

// A program that has just been started.
struct Started {
  pid_t pid;
  PidFd pid_fd;
  Channel control;
};

absl::Status Annotate(absl::string_view who, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(who, ": ", status.message()));
}

std::string DescribeUnborn(const ProcessOptions& options) {
  return absl::StrCat("cannot start worker ", options.index, " (entry '",
                      options.entry, "')");
}

absl::Status CheckOptions(const ProcessOptions& options) {
  if (!IsInitialized()) {
    return absl::FailedPreconditionError(
        "this program has not called tenon::spawn::Init(); add "
        "`tenon::spawn::Init(argc, argv);` as the first line of main()");
  }
  if (FindEntry(options.entry) == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "there is no such TENON_SPAWN_ENTRY in this program; there are: ",
        absl::StrJoin(EntryNames(), ", ")));
  }
  for (size_t i = 0; i < options.fds.size(); ++i) {
    if (options.fds[i].valid()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("fds[", i, "] of ", options.fds.size(), " is empty"));
  }
  return absl::OkStatus();
}

std::vector<int> Borrow(const std::vector<UniqueFd>& fds) {
  std::vector<int> borrowed;
  borrowed.reserve(fds.size());
  for (const UniqueFd& fd : fds) borrowed.push_back(fd.get());
  return borrowed;
}

// Gets a pidfd of a child that has just been started; if that fails, nothing is
// left of the child.
absl::StatusOr<PidFd> OpenChild(pid_t pid) {
  absl::StatusOr<PidFd> pid_fd = PidFd::Open(pid);
  if (pid_fd.ok()) return pid_fd;
  if (absl::IsNotFound(pid_fd.status())) {
    // Its zombie would have been found.
    return absl::UnavailableError(
        "it died before it reached Init(), and somebody else reaped it "
        "(SIGCHLD is ignored?)");
  }
  kill(pid, SIGKILL);
  RetryOnEintr([&] { return waitpid(pid, nullptr, 0); });
  return pid_fd;
}

absl::StatusOr<Started> StartProgram(const ProcessOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  StartMessage start = {.entry = options.entry,
                        .index = options.index,
                        .ignore_interrupt = options.ignore_interrupt,
                        .orphan_grace = options.orphan_grace,
                        .sharing_strategy = GetSharingStrategy()};
  TENON_RETURN_IF_ERROR(SendFirst(ends.first, std::move(start),
                                  options.argument, Borrow(options.fds)));
  TENON_ASSIGN_OR_RETURN(const pid_t pid,
                         Launch(ends.second.fd(), options.ignore_interrupt));
  // Only the child has its end now, so that its death closes it.
  ends.second.Release().Reset();
  TENON_ASSIGN_OR_RETURN(PidFd pid_fd, OpenChild(pid));
  return Started{pid, std::move(pid_fd), std::move(ends.first)};
}

}  // namespace

// By value, though only read: options.fds are closed on return.
absl::StatusOr<Process> Process::Start(
    ProcessOptions options) {  // NOLINT(performance-unnecessary-value-param)
  absl::StatusOr<Started> started = StartProgram(options);
  if (!started.ok()) {
    return Annotate(DescribeUnborn(options), started.status());
  }
  Process process(std::move(started->pid_fd), std::move(started->control),
                  options, started->pid);
  absl::Status sent =
      SendRest(process.control_, process.pid_fd_, Borrow(options.fds));
  if (sent.ok()) return process;
  if (absl::IsUnavailable(sent)) {
    // It is ending; how it ends is why, or it has reported a limit it has hit.
    const absl::Status how = process.Join(Deadline::After(absl::Seconds(1)));
    if (!how.ok()) sent = absl::UnavailableError(how.message());
    if (absl::IsResourceExhausted(how)) sent = how;
  }
  return Annotate(DescribeUnborn(options), sent);
}

Process::Process(PidFd pid_fd, Channel control, const ProcessOptions& options,
                 pid_t pid)
    : pid_fd_(std::move(pid_fd)),
      control_(std::move(control)),
      pid_(pid),
      index_(options.index),
      entry_(options.entry) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this == &other) return *this;
  End();
  pid_fd_ = std::move(other.pid_fd_);
  control_ = std::move(other.control_);
  pid_ = other.pid_;
  index_ = other.index_;
  entry_ = std::move(other.entry_);
  exit_status_ = other.exit_status_;
  outcome_ = std::move(other.outcome_);
  fork_count_ = other.fork_count_;
  return *this;
}

Process::~Process() { End(); }

absl::Status Process::CheckOurs() const {
  if (pid_fd_.fd() < 0) {
    return absl::FailedPreconditionError("this Process has been moved from");
  }
  return CheckNotForked(fork_count_, Describe());
}

void Process::End() {
  if (!CheckOurs().ok() || outcome_) return;
  // They fail if somebody else has reaped the child, which is as good.
  pid_fd_.SendSignal(SIGKILL).IgnoreError();
  pid_fd_.Reap(Deadline::Never()).status().IgnoreError();
}

absl::Status Process::Signal(int signal) const {
  TENON_RETURN_IF_ERROR(CheckOurs());
  const absl::Status sent = pid_fd_.SendSignal(signal);
  return sent.ok() ? sent : Annotate(Describe(), sent);
}

absl::Status Process::Join(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckOurs());
  if (!outcome_) {
    const absl::Status ended = pid_fd_.WaitForEnd(deadline);
    if (!ended.ok()) return Annotate(Describe(), ended);
    outcome_ = Verdict();
  }
  return *outcome_;
}

absl::Status Process::Verdict() {
  const absl::StatusOr<ExitStatus> exit = pid_fd_.Reap(Deadline::Passed());
  if (exit.ok()) exit_status_ = *exit;
  const std::string how = exit.ok()
                              ? exit->ToString()
                              : absl::StrCat("ended, exit status unknown: ",
                                             exit.status().message());
  const absl::StatusOr<std::optional<Report>> report = ReceiveReport(control_);
  if (!report.ok()) return Annotate(Describe(), report.status());
  if (!*report) return absl::AbortedError(absl::StrCat(Describe(), " ", how));
  const absl::Status& status = (*report)->status;
  // The code that Init() exits with after this report; anything else happened
  // later, in a destructor or an atexit() handler.
  const ExitStatus expected = {.exit_code = status.ok() ? 0 : 1};
  const bool as_expected =
      !exit.ok() || (exit->exit_code == expected.exit_code &&
                     exit->signal == expected.signal);
  if (!as_expected && status.ok()) {
    return absl::AbortedError(absl::StrCat(
        Describe(), " ", how, ", after its entry point had returned OK"));
  }
  return status.ok() ? status : Annotate(Describe(), status);
}

void Process::Stop(absl::Duration grace) {
  if (!CheckOurs().ok() || outcome_) return;
  if (!pid_fd_.HasEnded()) pid_fd_.SendSignal(SIGTERM).IgnoreError();
  if (!pid_fd_.WaitForEnd(Deadline::After(grace)).ok()) {
    pid_fd_.SendSignal(SIGKILL).IgnoreError();
  }
  Join(Deadline::Never()).IgnoreError();
}

std::string Process::Describe() const {
  return absl::StrCat("worker ", index_, " (entry '", entry_, "', pid ", pid_,
                      ")");
}

}  // namespace tenon::spawn
