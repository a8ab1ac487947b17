// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Processes: several children that are joined and ended together.
//
//   absl::StatusOr<Processes> workers = Processes::Start(8, {.entry = "work"});
//   if (!workers.ok()) return workers.status();
//   absl::Status how = workers->Join();  // The first failure ends the others.
//   if (auto raised = GetProcessRaised(how)) return raised->status;
//
// With typed arguments: start.h. Of different functions: Processes::Of().

#ifndef TENON_SPAWN_PROCESS_PROCESSES_H_
#define TENON_SPAWN_PROCESS_PROCESSES_H_

#include <sys/types.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {

// Ownership: owns its children. The destructor kills all children that still
//   run at once, and reaps them; or waits for them, according to
//   ProcessOptions::kill_on_drop of each.
// Threads: thread-compatible; Kill() may run concurrently with any call.
// Processes, Trust: as Process.
// Failure: errors name the child; process_error.h extracts the reason.
class Processes {
 public:
  // Time from SIGTERM to SIGKILL for the other children if Join() is given no
  // grace period, and then for the one that failed.
  static constexpr absl::Duration kPatience = absl::Seconds(30);

  // Starts `nprocs` children with the same options, in parallel. Their indices
  // count up from options.index. Each child gets all of options.fds. If one
  // child cannot be started, those already started are killed and reaped.
  // Errors: kInvalidArgument if `nprocs` is not positive; as Process::Start().
  static absl::StatusOr<Processes> Start(int nprocs, ProcessOptions options);

  // Gives one fate to children that run different functions, or have different
  // options: they are joined and ended together from now on.
  //
  //   TENON_ASSIGN_OR_RETURN(Process reads, StartProcess("Read", {}, frames));
  //   TENON_ASSIGN_OR_RETURN(Process trains,
  //                          StartProcess("Train", {}, frames));
  //   TENON_ASSIGN_OR_RETURN(
  //       Processes all, Processes::Of(std::move(reads), std::move(trains)));
  //
  // If the second cannot be started, the first is dropped, and so killed. Their
  // place in this object is the order of the arguments; their indices stay.
  // Errors: kInvalidArgument without children, or for one that was moved from;
  // kFailedPrecondition in a fork. The children are dropped then.
  static absl::StatusOr<Processes> Of(std::vector<Process> children);
  template <std::same_as<Process>... P>
  static absl::StatusOr<Processes> Of(Process first, P... others) {
    std::vector<Process> children;
    children.reserve(1 + sizeof...(others));
    children.push_back(std::move(first));
    (children.push_back(std::move(others)), ...);
    return Of(std::move(children));
  }

  ~Processes();
  Processes(Processes&&) noexcept = default;
  Processes& operator=(Processes&&) noexcept;

  // Waits for all children to end. OK if all entry points returned OK. Blocks
  // until `deadline`. Children may end in any order; one poll() waits for all.
  //
  // If one child fails, the others are ended, which may take longer than
  // `deadline`. It fails when its entry point returns an error or throws, or
  // when it ends without success:
  //
  //   with a grace period g     the children may end by themselves for g, then
  //                             SIGTERM, then g again, then SIGKILL
  //   without                   SIGTERM at once, SIGKILL after kPatience
  //
  // These times are for all children together, not for each. A child that has
  // reported its error is ending by itself: it gets no SIGTERM, and SIGKILL
  // only kPatience after the others. Join() returns once all are reaped. Later
  // calls return the same answer.
  // Errors: kDeadlineExceeded, naming a child that still runs; then nothing has
  // changed. Otherwise the failure of the child that failed first: by the time
  // in its error record, or, without a record, by the time at which its end was
  // noticed.
  absl::Status Join(Deadline deadline = Deadline::Never(),
                    std::optional<absl::Duration> grace_period = std::nullopt);
  absl::Status Join(absl::Duration timeout,
                    std::optional<absl::Duration> grace_period = std::nullopt) {
    return Join(Deadline::After(timeout), grace_period);
  }

  // Whether Join() has returned the outcome of all: a status of Join() alone
  // does not tell, as a function may have returned kDeadlineExceeded itself.
  bool joined() const { return !processes_.empty() && running_ == 0; }

  size_t nprocs() const { return processes_.size(); }
  // In the order of the start or of Of()'s arguments, also of children that
  // have ended.
  std::vector<pid_t> pids() const;
  const Process& operator[](size_t i) const { return processes_[i]; }

  // Sends `signal` to all children that still run. Errors: those of
  // Process::Signal(), for the first child to which it could not be sent; the
  // others have received it.
  absl::Status Kill(int signal) const;

 private:
  explicit Processes(std::vector<Process> processes);

  void End();
  // Joins the children that end by `deadline`; returns when at least one has
  // ended, or reported.
  absl::Status JoinSome(Deadline deadline);
  // Repeats JoinSome() until all are joined or `deadline` passes.
  void JoinAll(Deadline deadline);
  void EndOthers(std::optional<absl::Duration> grace_period);
  bool HasFailed() const;
  // Not to children that have reported an error: they are ending.
  void SignalOthers(int signal) const;
  absl::Status StillRunning() const;
  void JoinOne(size_t i);

  std::vector<Process> processes_;
  // Parallel to processes_: whether that child has been joined.
  std::vector<bool> joined_;
  size_t running_ = 0;
  // The first failure so far.
  std::optional<std::pair<int64_t, absl::Status>> failure_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_PROCESS_PROCESSES_H_
