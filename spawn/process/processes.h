// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Processes: several children with one fate.
//
//   absl::StatusOr<Processes> workers = Processes::Start(8, {.entry = "work"});
//   if (!workers.ok()) return workers.status();
//   absl::Status how = workers->Join();  // The first failure ends the others.
//   if (auto raised = GetProcessRaised(how)) return raised->status;
//
// With typed arguments: start.h.

#ifndef TENON_SPAWN_PROCESS_PROCESSES_H_
#define TENON_SPAWN_PROCESS_PROCESSES_H_

#include <sys/types.h>

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

// Ownership: owns its children. Destroying it kills those that still run, all
//   at once, and reaps them; or waits for them, as ProcessOptions::daemon says.
// Threads: thread-compatible; Kill() may run beside anything.
// Processes, Trust: as Process.
// Failure: errors name the child; how it failed is told by process_error.h.
class Processes {
 public:
  // How long the others have from SIGTERM to SIGKILL without a grace period.
  static constexpr absl::Duration kPatience = absl::Seconds(30);

  // Starts `nprocs` children of the same options, beside each other: none waits
  // for another to be up. Their indices count up from options.index. Each gets
  // all of options.fds. "{index}" in settings.name, stdout_file and stderr_file
  // is replaced by the index. If one cannot be started, those that were are
  // killed and reaped.
  // Errors: kInvalidArgument if `nprocs` is not positive; as Process::Start().
  static absl::StatusOr<Processes> Start(int nprocs, ProcessOptions options);

  ~Processes();
  Processes(Processes&&) noexcept = default;
  Processes& operator=(Processes&&) noexcept;

  // Waits for all to end. OK if all entry points returned OK. Blocks until
  // `deadline`. Ends are seen as they come, in any order, with one poll().
  //
  // If one fails, the others are ended, which may take longer than `deadline`:
  //
  //   with a grace period g     they have g to end by themselves, then SIGTERM,
  //                             then g again, then SIGKILL
  //   without                   SIGTERM at once, SIGKILL after kPatience
  //
  // These are for all together, not for each. It returns once all are reaped.
  // Calling it again gives the same answer.
  // Errors: kDeadlineExceeded, naming one that still runs; nothing has changed
  // then. Else the failure of the child that failed first: by the time in its
  // error record, or, where it left none, by when its end was noticed.
  absl::Status Join(Deadline deadline = Deadline::Never(),
                    std::optional<absl::Duration> grace_period = std::nullopt);
  absl::Status Join(absl::Duration timeout,
                    std::optional<absl::Duration> grace_period = std::nullopt) {
    return Join(Deadline::After(timeout), grace_period);
  }

  size_t nprocs() const { return processes_.size(); }
  // By index, also of those that have ended.
  std::vector<pid_t> pids() const;
  const Process& operator[](size_t i) const { return processes_[i]; }

  // Sends `signal` to all that have not ended. Errors: as Process::Signal(), of
  // the first to which it could not be sent; the others have got it.
  absl::Status Kill(int signal) const;

 private:
  explicit Processes(bool daemon) : daemon_(daemon) {}

  void End();
  // Joins those that have ended by `deadline`; returns when at least one has.
  absl::Status JoinSome(Deadline deadline);
  // The same until none is left or `deadline` passes.
  void JoinAll(Deadline deadline);
  void EndOthers(std::optional<absl::Duration> grace_period);
  absl::Status StillRunning() const;
  void JoinOne(size_t i);

  std::vector<Process> processes_;
  // Parallel to it: whether it has been joined.
  std::vector<bool> joined_;
  size_t running_ = 0;
  // The first failure so far.
  std::optional<std::pair<int64_t, absl::Status>> failure_;
  bool daemon_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_PROCESS_PROCESSES_H_
