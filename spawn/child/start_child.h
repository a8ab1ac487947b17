// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Starts children: each is prepared first, then all are started together.

#ifndef TENON_SPAWN_CHILD_START_CHILD_H_
#define TENON_SPAWN_CHILD_START_CHILD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/child/handover.h"
#include "tenon/spawn/child/started_child.h"
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

// Whether this process may start children by options.method: by kFork, only if
// it has one thread and no fork hazard (fork_hazard.h). Call it just before
// each start. Errors: kFailedPrecondition.
absl::Status CheckMethod(const ProcessOptions& options);

// Checks `options` and prepares the child's messages and descriptors;
// options.fds are ignored, `fds` are sent, and `argument` is made from
// options.argument (handover.h). Blocks for `patience` at most.
// Errors: as Process::Start().
absl::StatusOr<PreparedChild> PrepareChild(
    const ProcessOptions& options, const SharedArgument& argument,
    absl::Span<const int> fds, absl::Duration patience = kInFlightPatience);

// StartSupervised(), or StartByServer() (fork_client.h).
using StartFunction =
    absl::StatusOr<SupervisedChildren> (*)(const SupervisedStart& start);

// Starts at most kMaxSupervised children that were prepared with these options,
// in their order, by `start`. `memory_kills` is CountMemoryKills(), read once
// by the caller. The children then wait to be resumed (handover.h); their
// output is copied. After a failed start no child keeps running: one of a fork
// server whose reply was lost ends with its control channel. Errors: as
// Process::Start().
absl::StatusOr<std::vector<StartedChild>> StartPrepared(
    const ProcessOptions& options, std::vector<PreparedChild> children,
    std::optional<int64_t> memory_kills, StartFunction start);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_START_CHILD_H_
