// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Starts prepared children, by the start method in their options.

#ifndef TENON_SPAWN_PROCESS_START_CHILD_H_
#define TENON_SPAWN_PROCESS_START_CHILD_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/spawn/child/started_child.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {

// Starts at most kMaxSupervised children that were prepared with these options,
// in their order. `memory_kills` is CountMemoryKills(), read once by the
// caller. The children then wait to be resumed (handover.h). A failed start
// leaves nothing behind. Errors: as Process::Start().
absl::StatusOr<std::vector<StartedChild>> StartPrepared(
    const ProcessOptions& options, std::vector<PreparedChild> children,
    std::optional<int64_t> memory_kills);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_PROCESS_START_CHILD_H_
