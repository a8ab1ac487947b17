// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The parent's state of a child: prepared before it exists, started, signalled,
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

// The child's messages and descriptors, before it exists.
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
  // Shared by the children that were started together; null for a fork server's
  // child, or once reaped. After the start, accessed only by std::atomic_load()
  // and the like: SignalChild() may run concurrently with ReapChild().
  std::shared_ptr<Supervisor> supervisor;
  std::unique_ptr<Output> output;
  UniqueFd crash_record;
  // By CLOCK_MONOTONIC.
  int64_t started_ns;
  // CountMemoryKills() before its start.
  std::optional<int64_t> memory_kills;
};

// Checks `options` and prepares the child's messages and descriptors;
// options.fds are ignored, `fds` are sent, and `argument` is made from
// options.argument (handover.h). Blocks for `patience` at most.
// Errors: as Process::Start().
absl::StatusOr<PreparedChild> PrepareChild(
    const ProcessOptions& options, const SharedArgument& argument,
    absl::Span<const int> fds, absl::Duration patience = kInFlightPatience);

// The parameters for a start with these options; `children` are borrowed.
SupervisedStart SupervisedStartOf(const ProcessOptions& options,
                                  absl::Span<const ChildFds> children);

// The ancestors' pidfds for a child of this process, the nearest ancestor
// first, without this process.
std::vector<int> AncestorsOfChild();

// The descriptors for such a child.
ChildFds FdsOf(const PreparedChild& child);

// Closes this process's duplicates of the children's descriptors, and begins to
// copy their output. On an error no child is left. Errors: as Process::Start().
absl::StatusOr<std::vector<StartedChild>> FinishStart(
    SupervisedChildren supervised, std::vector<PreparedChild> prepared,
    std::optional<int64_t> memory_kills);

// Errors: kNotFound if the child has ended. SIGKILL also wakes a stopped
// supervisor, so that it can report the end.
absl::Status SignalChild(const StartedChild& child, int signal);

// The exit status of a child, once. Blocks until the child has ended, or until
// `deadline`. Errors: kDeadlineExceeded, after which nothing has changed;
// kUnavailable if the supervisor was killed, and thereby the child.
absl::StatusOr<ExitStatus> ReapChild(StartedChild& child, Deadline deadline);

// CLOCK_MONOTONIC in nanoseconds.
int64_t MonotonicNs();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_STARTED_CHILD_H_
