// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The parent's state of a child that has been started (start_child.h), to be
// signalled and reaped.

#ifndef TENON_SPAWN_CHILD_STARTED_CHILD_H_
#define TENON_SPAWN_CHILD_STARTED_CHILD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/spawn/report/output.h"
#include "tenon/spawn/supervisor/supervisor.h"

namespace tenon::spawn {

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

// Errors: kNotFound if the child has ended. SIGKILL also wakes a stopped
// supervisor, so that it can report the end.
absl::Status SignalChild(const StartedChild& child, int signal);

// The exit status of a child, once. Blocks until the child has ended, or until
// `deadline`. Errors: kDeadlineExceeded, after which nothing has changed;
// kUnavailable if the supervisor was killed, and thereby the child.
absl::StatusOr<ExitStatus> ReapChild(StartedChild& child, Deadline deadline);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_STARTED_CHILD_H_
