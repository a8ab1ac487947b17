// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The parent's half of a start, up to children that wait to be let go.

#ifndef TENON_SPAWN_START_CHILD_H_
#define TENON_SPAWN_START_CHILD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/guardian.h"
#include "tenon/spawn/handover.h"
#include "tenon/spawn/output.h"
#include "tenon/spawn/process_options.h"

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
  Fate fate;
  // Shared by those that were started together; none if it is the fork
  // server's, or has been reaped. Once started, by std::atomic_load() and the
  // like only: SignalChild() may run beside ReapChild().
  std::shared_ptr<Guardian> guardian;
  std::unique_ptr<Output> output;
  UniqueFd crash_record;
  // By CLOCK_MONOTONIC.
  int64_t started_ns;
  // CountMemoryKills() before its start.
  std::optional<int64_t> memory_kills;
};

// Checks `options` and makes all that the child will find; options.fds are
// ignored, `fds` are to be sent (handover.h). Blocks for `patience` at most.
// Errors: as Process::Start().
absl::StatusOr<PreparedChild> PrepareChild(
    const ProcessOptions& options, absl::Span<const int> fds,
    absl::Duration patience = kInFlightPatience);

// Starts at most kMaxGuarded children that were prepared with such options, in
// their order. `memory_kills` is CountMemoryKills(), which those who start many
// ask for once. They then wait to be let go. A failed start leaves nothing
// behind. Errors: as Process::Start().
absl::StatusOr<std::vector<StartedChild>> StartPrepared(
    const ProcessOptions& options, std::vector<PreparedChild> children,
    std::optional<int64_t> memory_kills);

// Both, for one.
absl::StatusOr<StartedChild> StartChild(const ProcessOptions& options,
                                        absl::Span<const int> fds,
                                        std::optional<int64_t> memory_kills);

// Errors: kNotFound if it has ended. SIGKILL also wakes a guardian that
// somebody has stopped, so that it can tell of the end.
absl::Status SignalChild(const StartedChild& child, int signal);

// The exit status of a child that has ended, once. Blocks until `deadline`.
// Errors: kDeadlineExceeded, after which nothing has changed; kUnavailable if
// its guardian was killed, and so it was.
absl::StatusOr<ExitStatus> ReapChild(StartedChild& child, Deadline deadline);

// CLOCK_MONOTONIC in nanoseconds.
int64_t MonotonicNs();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_START_CHILD_H_
