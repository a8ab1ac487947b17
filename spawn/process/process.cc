// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/process/process.h"

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/tensor_queue/tensor_reaper.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/spawn/child/handover.h"
#include "tenon/spawn/child/start_child.h"
#include "tenon/spawn/child/started_child.h"
#include "tenon/spawn/fork_server/fork_client.h"
#include "tenon/spawn/process/active_children.h"
#include "tenon/spawn/process/process_stop.h"
#include "tenon/spawn/report/crash_record.h"
#include "tenon/spawn/report/memory_kills.h"
#include "tenon/spawn/report/output.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/report/report.h"
#include "tenon/spawn/settings/index_templates.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/supervisor/supervisor.h"
#include "tenon/spawn/supervisor/supervisor_main.h"

namespace tenon::spawn {
namespace {

absl::Status Annotate(absl::string_view who, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(who, ": ", status.message()));
}

std::vector<int> Borrow(const std::vector<UniqueFd>& fds) {
  std::vector<int> borrowed;
  borrowed.reserve(fds.size());
  for (const UniqueFd& fd : fds) borrowed.push_back(fd.get());
  return borrowed;
}

const std::optional<ExitStatus>& NoExitStatus() {
  static const std::optional<ExitStatus>& none = *new std::optional<ExitStatus>;
  return none;
}

}  // namespace

struct Process::State {
  StartedChild child;
  int index = 0;
  std::string entry;
  bool kill_on_drop = true;
  std::optional<absl::StatusOr<ExitStatus>> end;  // Set once reaped.
  std::optional<ExitStatus> exit_status;
  std::optional<absl::Status> outcome;
  // The report, if it was read before the child ended.
  absl::StatusOr<std::optional<Report>> early_report{std::nullopt};
  bool report_polled = false;
  int64_t failed_at_ns = 0;
  ActiveChildEntry active = {{.pid = child.pid, .index = index, .entry = entry},
                             child.pid_fd.fd()};

  std::string Describe() const {
    return absl::StrCat("worker ", index, " (entry '", entry, "', pid ",
                        child.pid, ")");
  }
  // Facts about a child in addition to its report.
  ProcessExited Exited() const;
  absl::Status Aborted(absl::string_view how);
  absl::Status Raised(Report report);
  // A child's time stamp is accepted if the child was alive then.
  void NoteFailure(int64_t at_ns) {
    failed_at_ns = std::clamp(at_ns, child.started_ns, MonotonicNs());
  }
};

ProcessExited Process::State::Exited() const {
  ProcessExited exited = {.index = index, .pid = child.pid};
  if (child.output != nullptr) exited.stderr_tail = child.output->StderrTail();
  if (!exit_status) return exited;
  exited.peak_rss_bytes = exit_status->peak_rss_bytes;
  if (exit_status->signal == 0) {
    exited.exit_code = exit_status->exit_code;
    return exited;
  }
  exited.signal = exit_status->signal;
  exited.signal_name = SignalName(exited.signal);
  if (exited.signal == SIGKILL && child.memory_kills) {
    exited.killed_for_memory = CountMemoryKills() > child.memory_kills;
  }
  return exited;
}

absl::Status Process::State::Aborted(absl::string_view how) {
  ProcessExited exited = Exited();
  std::string message = absl::StrCat(Describe(), " ", how);
  if (exited.killed_for_memory) {
    const std::string group = DescribeGroupMemory();
    absl::StrAppend(&message, ", by the kernel for lack of memory",
                    group.empty() ? "" : absl::StrCat(" (", group, ")"),
                    "; its peak: ", exited.peak_rss_bytes >> 20, " MiB");
  }
  if (child.crash_record.valid()) {
    absl::StatusOr<std::optional<CrashRecord>> crash =
        ReadCrashRecord(child.crash_record.get());
    if (crash.ok() && *crash && (*crash)->signal == exited.signal) {
      NoteFailure((*crash)->time_ns);
      exited.stack = std::move((*crash)->stack);
      absl::StrAppend(&message, "\n", exited.stack);
    }
  }
  if (child.output->lost_bytes() > 0) {
    absl::StrAppend(&message, "\n", child.output->lost_bytes(),
                    " bytes of its output could not be written");
  }
  if (!exited.stderr_tail.empty()) {
    absl::StrAppend(&message, "\ntail of its stderr:\n", exited.stderr_tail);
  }
  absl::Status status = absl::AbortedError(message);
  SetProcessError(exited, status);
  return status;
}

absl::Status Process::State::Raised(Report report) {
  NoteFailure(report.time_ns);
  absl::Status status = Annotate(Describe(), report.status);
  if (!report.stack.empty()) {
    status = absl::Status(status.code(),
                          absl::StrCat(status.message(), "\n", report.stack));
  }
  SetProcessError(ProcessRaised{.index = index,
                                .pid = child.pid,
                                .status = std::move(report.status),
                                .stack = std::move(report.stack)},
                  status);
  return status;
}

absl::StatusOr<Process> Process::Start(ProcessOptions options) {
  const std::vector<int> fds = Borrow(options.fds);
  TENON_ASSIGN_OR_RETURN(std::vector<Process> started,
                         StartEach(options, {&fds, 1}));
  return std::move(started[0]);
}

static_assert(Process::kSupervisedTogether == kMaxSupervised);

absl::StatusOr<std::vector<Process>> Process::StartEach(
    ProcessOptions& options, absl::Span<const std::vector<int>> fds) {
  const IndexTemplates templates(options);
  const std::optional<int64_t> memory_kills = CountMemoryKills();
  const int first_index = options.index;
  const absl::StatusOr<SharedArgument> argument =
      SharedArgument::Create(options.argument);
  if (!argument.ok()) return CannotStart(options, argument.status());
  std::vector<Process> started;
  std::vector<PreparedChild> prepared;
  const auto start_prepared = [&] {
    // For each batch: threads may copy the output of the one before.
    if (const absl::Status may = CheckMethod(options); !may.ok()) {
      return GiveUp(started, CannotStart(options, may));
    }
    const size_t first = started.size();
    const int index = first_index + static_cast<int>(first);
    const auto fds_of_batch = fds.subspan(first, prepared.size());
    return StartBatch(options, index, fds_of_batch, std::exchange(prepared, {}),
                      memory_kills, started);
  };
  for (size_t i = 0; i < fds.size(); ++i) {
    templates.FillIn(first_index + static_cast<int>(i));
    // Children that wait to be started receive the descriptors in flight once
    // they run.
    absl::StatusOr<PreparedChild> child = PrepareChild(
        options, *argument, fds[i],
        prepared.empty() ? kInFlightPatience : absl::ZeroDuration());
    if (absl::IsResourceExhausted(child.status()) && !prepared.empty()) {
      TENON_RETURN_IF_ERROR(start_prepared());
      child = PrepareChild(options, *argument, fds[i]);
    }
    if (!child.ok()) {
      return GiveUp(started, CannotStart(options, child.status()));
    }
    prepared.push_back(*std::move(child));
    if (prepared.size() < kSupervisedTogether && i + 1 < fds.size()) continue;
    TENON_RETURN_IF_ERROR(start_prepared());
  }
  return started;
}

// If one fails, all of `started` are killed.
absl::Status Process::StartBatch(const ProcessOptions& options, int index,
                                 absl::Span<const std::vector<int>> fds,
                                 std::vector<PreparedChild> prepared,
                                 std::optional<int64_t> memory_kills,
                                 std::vector<Process>& started) {
  absl::StatusOr<std::vector<StartedChild>> children = StartPrepared(
      options, std::move(prepared), memory_kills,
      options.method == StartMethod::kForkServer ? StartByServer
                                                 : StartSupervised);
  if (!children.ok()) {
    return GiveUp(started, CannotStart(options, children.status()));
  }
  const size_t first = started.size();
  for (StartedChild& child : *children) {
    const auto at = static_cast<int64_t>(started.size() - first);
    started.push_back(
        Of(std::move(child), options, static_cast<int>(index + at)));
  }
  for (size_t i = first; i < started.size(); ++i) {
    absl::Status resumed = started[i].Resume(fds[i - first]);
    if (!resumed.ok()) return GiveUp(started, std::move(resumed));
  }
  return absl::OkStatus();
}

absl::Status Process::GiveUp(const std::vector<Process>& started,
                             absl::Status why) {
  // Whatever kill_on_drop says: they have hardly begun.
  for (const Process& process : started) process.Kill().IgnoreError();
  return why;
}

absl::Status Process::CannotStart(const ProcessOptions& options,
                                  const absl::Status& why) {
  return Annotate(absl::StrCat("cannot start worker ", options.index,
                               " (entry '", options.entry, "')"),
                  why);
}

Process Process::Of(StartedChild child, const ProcessOptions& options,
                    int index) {
  return Process(
      std::unique_ptr<State>(new State{.child = std::move(child),
                                       .index = index,
                                       .entry = options.entry,
                                       .kill_on_drop = options.kill_on_drop}));
}

absl::Status Process::Resume(absl::Span<const int> fds) {
  absl::Status sent =
      SendRest(state_->child.control, state_->child.pid_fd, fds);
  if (sent.ok()) return sent;
  if (absl::IsUnavailable(sent)) {
    // The child is ending; its exit is the reason, or it has reported a limit.
    const absl::Status how = Join(Deadline::After(absl::Seconds(1)));
    if (!how.ok()) sent = absl::UnavailableError(how.message());
    if (absl::IsResourceExhausted(how)) sent = how;
  }
  return Annotate(absl::StrCat("cannot start worker ", state_->index,
                               " (entry '", state_->entry, "')"),
                  sent);
}

Process::Process(std::unique_ptr<State> state)
    : state_(std::move(state)), fork_count_(ForkCount()) {}

Process::Process(Process&&) noexcept = default;

Process& Process::operator=(Process&& other) noexcept {
  if (this == &other) return *this;
  End();
  state_ = std::move(other.state_);
  fork_count_ = other.fork_count_;
  return *this;
}

Process::~Process() { End(); }

pid_t Process::pid() const {
  return state_ == nullptr ? -1 : state_->child.pid;
}

int Process::index() const { return state_ == nullptr ? 0 : state_->index; }

int Process::end_fd() const {
  return state_ == nullptr ? -1 : state_->child.child_exit.fd();
}

const std::optional<ExitStatus>& Process::exit_status() const {
  return state_ == nullptr ? NoExitStatus() : state_->exit_status;
}

int64_t Process::lost_output_bytes() const {
  return state_ == nullptr || state_->child.output == nullptr
             ? 0
             : state_->child.output->lost_bytes();
}

int64_t Process::failed_at_ns() const { return state_->failed_at_ns; }

int Process::report_fd() const {
  return state_->report_polled ? -1 : state_->child.control.fd();
}

bool Process::PollError() {
  state_->report_polled = true;
  state_->early_report = PollReport(state_->child.control);
  return has_reported_error();
}

bool Process::has_reported_error() const {
  const absl::StatusOr<std::optional<Report>>& report = state_->early_report;
  return report.ok() && *report && !(*report)->status.ok();
}

absl::Status Process::CheckOurs() const {
  if (state_ == nullptr) {
    return absl::FailedPreconditionError("this Process has been moved from");
  }
  return CheckNotForked(fork_count_, Describe());
}

void Process::StartToEnd() const {
  if (CheckOurs().ok() && state_->kill_on_drop && !state_->outcome) {
    SignalChild(state_->child, SIGKILL).IgnoreError();
  }
}

void Process::End() {
  if (state_ == nullptr) return;
  if (!CheckOurs().ok()) {
    // This process has no such thread to join, and the pids and descriptors may
    // mean other objects now.
    static_cast<void>(state_.release());
    return;
  }
  if (state_->outcome) return;
  StartedChild& child = state_->child;
  if (!state_->end) {
    // Fails if the child has already been reaped, which is as good.
    if (state_->kill_on_drop) SignalChild(child, SIGKILL).IgnoreError();
    state_->end = ReapChild(child, Deadline::Never());
  }
  child.output->Stop();
}

bool Process::joined() const {
  return state_ != nullptr && state_->outcome.has_value();
}

bool Process::IsAlive() const {
  return CheckOurs().ok() && !state_->outcome &&
         !state_->child.child_exit.has_exited();
}

absl::Status Process::Signal(int signal) const {
  TENON_RETURN_IF_ERROR(CheckOurs());
  const absl::Status sent = SignalChild(state_->child, signal);
  return sent.ok() ? sent : Annotate(Describe(), sent);
}

absl::Status Process::Terminate() const { return Signal(SIGTERM); }

absl::Status Process::Kill() const { return Signal(SIGKILL); }

absl::Status Process::AwaitEnd(Deadline deadline) {
  // The child may wait for blocks that this process holds for its peers
  // (tensor_reaper.h).
  const absl::Status ended = WaitAndReap(deadline, [&](Deadline slice) {
    return state_->child.child_exit.WaitForExit(slice);
  });
  if (absl::IsDeadlineExceeded(ended)) {
    return absl::DeadlineExceededError(absl::StrCat(
        Describe(), ": ", ended.message(), DescribeStop(state_->child.pid)));
  }
  if (!ended.ok()) return Annotate(Describe(), ended);
  absl::StatusOr<ExitStatus> end = ReapChild(state_->child, deadline);
  // A tracer delays its end.
  if (absl::IsDeadlineExceeded(end.status())) {
    return Annotate(Describe(), end.status());
  }
  state_->end = std::move(end);
  return absl::OkStatus();
}

absl::Status Process::Join(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckOurs());
  if (!state_->outcome) {
    if (!state_->end) {
      TENON_RETURN_IF_ERROR(AwaitEnd(deadline));
    }
    const absl::Status written = state_->child.output->Finish(deadline);
    if (!written.ok()) return Annotate(Describe(), written);
    state_->outcome = Verdict(*state_->end);
  }
  return *state_->outcome;
}

absl::Status Process::Verdict(const absl::StatusOr<ExitStatus>& exit) {
  StartedChild& child = state_->child;
  if (exit.ok()) state_->exit_status = *exit;
  state_->failed_at_ns = MonotonicNs();
  const std::string how = exit.ok()
                              ? exit->ToString()
                              : absl::StrCat("ended, exit status unknown: ",
                                             exit.status().message());
  absl::StatusOr<std::optional<Report>> report =
      std::exchange(state_->early_report, std::nullopt);
  if (report.ok()) report = ReceiveReport(child.control, *std::move(report));
  if (!report.ok()) {
    absl::Status garbage = Annotate(Describe(), report.status());
    SetProcessError(state_->Exited(), garbage);
    return garbage;
  }
  // exit(0), or success of another program that the child executed.
  if (!*report && exit.ok() && exit->success()) return absl::OkStatus();
  if (!*report) return state_->Aborted(how);
  if (!(*report)->status.ok()) return state_->Raised(**std::move(report));
  // A child exits with this code after this report; any other end came later,
  // in a destructor or an atexit() handler.
  if (exit.ok() && !exit->success()) {
    return state_->Aborted(
        absl::StrCat(how, ", after its entry point had returned OK"));
  }
  return absl::OkStatus();
}

absl::Status Process::Close() {
  if (state_ == nullptr) return absl::OkStatus();
  TENON_RETURN_IF_ERROR(CheckOurs());
  Join(IsAlive() ? Deadline::Passed() : Deadline::After(3 * Output::kPatience))
      .IgnoreError();
  if (!joined()) {
    return absl::FailedPreconditionError(
        absl::StrCat(Describe(), " still runs: Join() or Stop() it first"));
  }
  state_.reset();
  return absl::OkStatus();
}

void Process::Stop(absl::Duration grace) {
  if (!CheckOurs().ok() || state_->outcome) return;
  const StartedChild& child = state_->child;
  if (!child.child_exit.has_exited())
    child.pid_fd.SendSignal(SIGTERM).IgnoreError();
  if (!child.child_exit.WaitForExit(Deadline::After(grace)).ok()) {
    SignalChild(child, SIGKILL).IgnoreError();
  }
  Join().IgnoreError();
}

std::string Process::Describe() const {
  return state_ == nullptr ? "a Process that has been moved from"
                           : state_->Describe();
}

}  // namespace tenon::spawn
