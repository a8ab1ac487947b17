// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The parent's half of a start, up to a child that waits to be let go.

#ifndef TENON_SPAWN_START_CHILD_H_
#define TENON_SPAWN_START_CHILD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/output.h"
#include "tenon/spawn/process_options.h"

namespace tenon::spawn {

struct StartedChild {
  pid_t pid;
  PidFd pid_fd;
  Channel control;
  // Tells its end, if it is a child of the fork server.
  std::optional<Channel> fate;
  std::unique_ptr<Output> output;
  UniqueFd crash_record;
  // By CLOCK_MONOTONIC.
  int64_t started_ns;
  // CountMemoryKills() before its start.
  std::optional<int64_t> memory_kills;
};

// Checks `options` and starts the child; options.fds are ignored, `fds` are to
// be sent (handover.h). `memory_kills` is CountMemoryKills(), which those who
// start many ask for once. A failed start leaves nothing behind.
// Errors: as Process::Start().
absl::StatusOr<StartedChild> StartChild(const ProcessOptions& options,
                                        absl::Span<const int> fds,
                                        std::optional<int64_t> memory_kills);

// The exit status of a child that has ended, which is then reaped.
// Errors: as PidFd::Reap(); kUnavailable if its fork server has died.
absl::StatusOr<ExitStatus> ReapChild(StartedChild& child, Deadline deadline);

// CLOCK_MONOTONIC in nanoseconds.
int64_t MonotonicNs();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_START_CHILD_H_
