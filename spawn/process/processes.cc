// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/process/processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/tensor_queue/tensor_reaper.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/process_stop.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {
namespace {

std::vector<int> Borrow(const std::vector<UniqueFd>& fds) {
  std::vector<int> borrowed;
  borrowed.reserve(fds.size());
  for (const UniqueFd& fd : fds) borrowed.push_back(fd.get());
  return borrowed;
}

}  // namespace

absl::StatusOr<Processes> Processes::Start(int nprocs, ProcessOptions options) {
  if (nprocs <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot start ", nprocs, " processes; want at least 1"));
  }
  const std::vector<std::vector<int>> fds(static_cast<size_t>(nprocs),
                                          Borrow(options.fds));
  TENON_ASSIGN_OR_RETURN(std::vector<Process> started,
                         Process::StartEach(options, fds));
  return Processes(std::move(started));
}

absl::StatusOr<Processes> Processes::Of(std::vector<Process> children) {
  if (children.empty()) {
    return absl::InvalidArgumentError(
        "Processes::Of() without children; want at least 1");
  }
  for (size_t i = 0; i < children.size(); ++i) {
    if (children[i].pid() < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Processes::Of(): child ", i, " of ", children.size(),
          " has been moved from; want children that were started"));
    }
    TENON_RETURN_IF_ERROR(children[i].CheckOurs());
  }
  return Processes(std::move(children));
}

Processes::Processes(std::vector<Process> processes)
    : processes_(std::move(processes)),
      joined_(processes_.size()),
      running_(processes_.size()) {}

Processes::~Processes() { End(); }

Processes& Processes::operator=(Processes&& other) noexcept {
  if (this == &other) return *this;
  End();
  processes_ = std::move(other.processes_);
  joined_ = std::move(other.joined_);
  running_ = other.running_;
  failure_ = std::move(other.failure_);
  return *this;
}

void Processes::End() {
  // All at once, so that they die in parallel. Has no effect in a fork.
  for (const Process& process : processes_) process.StartToEnd();
  // So the remaining output of all is written in parallel, too.
  for (Process& process : processes_) process.End();
}

std::vector<pid_t> Processes::pids() const {
  std::vector<pid_t> pids;
  pids.reserve(processes_.size());
  for (const Process& process : processes_) pids.push_back(process.pid());
  return pids;
}

absl::Status Processes::Kill(int signal) const {
  absl::Status first;
  for (const Process& process : processes_) {
    const absl::Status sent = process.Signal(signal);
    if (!absl::IsNotFound(sent)) first.Update(sent);
  }
  return first;
}

void Processes::JoinOne(size_t i) {
  Process& process = processes_[i];
  const absl::Status how = process.Join(Deadline::After(Process::kEndPatience));
  if (absl::IsDeadlineExceeded(how) && !process.joined()) return;
  joined_[i] = true;
  --running_;
  if (how.ok()) return;
  const int64_t at = process.failed_at_ns();
  if (!failure_ || at < failure_->first) failure_.emplace(at, how);
}

absl::Status Processes::JoinSome(Deadline deadline) {
  std::vector<pollfd> fds;
  fds.reserve(2 * processes_.size());
  // poll() skips a negative descriptor.
  for (size_t i = 0; i < processes_.size(); ++i) {
    fds.push_back({.fd = joined_[i] ? -1 : processes_[i].end_fd(),
                   .events = POLLIN,
                   .revents = 0});
  }
  // A child that reports an error ends some hundred microseconds later.
  for (size_t i = 0; i < processes_.size(); ++i) {
    fds.push_back({.fd = joined_[i] ? -1 : processes_[i].report_fd(),
                   .events = POLLIN,
                   .revents = 0});
  }
  // Children that have claimed their arguments may wait for blocks that this
  // process holds for its peers.
  const absl::StatusOr<int> ended =
      WaitAndReap(deadline, [&](Deadline slice) -> absl::StatusOr<int> {
        TENON_ASSIGN_OR_RETURN(const int count, PollUntil(fds, slice));
        if (count > 0) return count;
        return absl::DeadlineExceededError("none has ended");
      });
  if (absl::IsDeadlineExceeded(ended.status())) return StillRunning();
  TENON_RETURN_IF_ERROR(ended.status());
  const size_t running = running_;
  const bool had_failed = HasFailed();
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (fds[processes_.size() + i].revents != 0) processes_[i].PollError();
    if (fds[i].revents != 0) JoinOne(i);
  }
  const bool changed = running_ != running || HasFailed() != had_failed;
  if (!changed && deadline.has_passed()) return StillRunning();
  return absl::OkStatus();
}

bool Processes::HasFailed() const {
  return failure_ || std::any_of(processes_.begin(), processes_.end(),
                                 [](const Process& process) {
                                   return process.has_reported_error();
                                 });
}

void Processes::SignalOthers(int signal) const {
  for (const Process& process : processes_) {
    if (!process.has_reported_error()) process.Signal(signal).IgnoreError();
  }
}

void Processes::JoinAll(Deadline deadline) {
  while (running_ > 0 && JoinSome(deadline).ok()) {
  }
}

absl::Status Processes::StillRunning() const {
  const Process* example = nullptr;
  std::string stop;
  for (size_t i = 0; i < processes_.size() && stop.empty(); ++i) {
    if (joined_[i]) continue;
    stop = DescribeStop(processes_[i].pid());
    if (example == nullptr || !stop.empty()) example = &processes_[i];
  }
  if (example == nullptr) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(
      running_, " of ", processes_.size(), " processes still run, ",
      example->Describe(), " among them", stop));
}

void Processes::EndOthers(std::optional<absl::Duration> grace_period) {
  if (grace_period) JoinAll(Deadline::After(*grace_period));
  if (running_ == 0) return;
  SignalOthers(SIGTERM);
  JoinAll(Deadline::After(grace_period.value_or(kPatience)));
  if (running_ == 0) return;
  SignalOthers(SIGKILL);
  JoinAll(Deadline::After(kPatience));
  if (running_ == 0) return;
  Kill(SIGKILL).IgnoreError();
  JoinAll(Deadline::Never());
}

absl::Status Processes::Join(Deadline deadline,
                             std::optional<absl::Duration> grace_period) {
  if (processes_.empty()) {
    return absl::FailedPreconditionError("this Processes has been moved from");
  }
  TENON_RETURN_IF_ERROR(processes_[0].CheckOurs());
  while (running_ > 0 && !HasFailed()) {
    TENON_RETURN_IF_ERROR(JoinSome(deadline));
  }
  if (HasFailed()) EndOthers(grace_period);
  return failure_ ? failure_->second : absl::OkStatus();
}

}  // namespace tenon::spawn
