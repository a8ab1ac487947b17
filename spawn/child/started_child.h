// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A child in its parent's hands: prepared before it exists, started, signalled,
// reaped.

#ifndef TENON_SPAWN_CHILD_STARTED_CHILD_H_
#define TENON_SPAWN_CHILD_STARTED_CHILD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/child/handover.h"
#include "tenon/spawn/report/output.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/supervisor/supervisor.h"

namespace tenon::spawn {

// All that a child will find, before it exists.
struct PreparedChild {
  Channel control;
  Channel childs_end;
  std::unique_ptr<Output> output;
  UniqueFd crash_record;
};

struct StartedChild {
  pid_t pid;
  PidFd pid_fd;
  Channel control;
  ChildExit child_exit;
  // Shared by those that were started together; null if it is the fork
  // server's, or has been reaped. Once started, by std::atomic_load() and the
  // like only: SignalChild() may run beside ReapChild().
  std::shared_ptr<Supervisor> supervisor;
  std::unique_ptr<Output> output;
  UniqueFd crash_record;
  // By CLOCK_MONOTONIC.
  int64_t started_ns;
  // CountMemoryKills() before its start.
  std::optional<int64_t> memory_kills;
};

// Checks `options` and makes all that the child will find; options.fds are
// ignored, `fds` are to be sent, and `argument` is of options.argument
// (handover.h). Blocks for `patience` at most.
// Errors: as Process::Start().
absl::StatusOr<PreparedChild> PrepareChild(
    const ProcessOptions& options, const SharedArgument& argument,
    absl::Span<const int> fds, absl::Duration patience = kInFlightPatience);

// How children of these options are to be started; `children` are borrowed.
SupervisedStart SupervisedStartOf(const ProcessOptions& options,
                                  absl::Span<const ChildFds> children);

// The pidfds that a child of this process is to have, the nearest ancestor
// first, without this process.
std::vector<int> AncestorsOfChild();

// What such a child gets.
ChildFds FdsOf(const PreparedChild& child);

// Closes this process's duplicates of what the children have got, and begins
// to take their output. Errors, which leave no child behind: as
// Process::Start().
absl::StatusOr<std::vector<StartedChild>> TakeCharge(
    SupervisedChildren supervised, std::vector<PreparedChild> prepared,
    std::optional<int64_t> memory_kills);

// Errors: kNotFound if it has ended. SIGKILL also wakes a supervisor that has
// been stopped, so that it can report the end.
absl::Status SignalChild(const StartedChild& child, int signal);

// The exit status of a child that has ended, once. Blocks until `deadline`.
// Errors: kDeadlineExceeded, after which nothing has changed; kUnavailable if
// its supervisor was killed, and so it was.
absl::StatusOr<ExitStatus> ReapChild(StartedChild& child, Deadline deadline);

// CLOCK_MONOTONIC in nanoseconds.
int64_t MonotonicNs();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_STARTED_CHILD_H_
