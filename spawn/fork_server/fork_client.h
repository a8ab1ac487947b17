// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A process's connection to its fork server (fork_server.h). Not for users.

#ifndef TENON_SPAWN_FORK_SERVER_FORK_CLIENT_H_
#define TENON_SPAWN_FORK_SERVER_FORK_CLIENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/spawn/supervisor/supervisor.h"

namespace tenon::spawn {

// StartSupervised() for forks of the server, which is started if there is none,
// and replaced if it has died. The children have the server's ancestors, and
// run what its forks run: those of `start` are ignored. Thread-safe. Errors:
// kUnavailable if the server dies meanwhile; kResourceExhausted at a limit of
// this process; kDataLoss or kInvalidArgument for a malformed reply; those that
// the server reports.
absl::StatusOr<SupervisedChildren> StartByServer(const SupervisedStart& start);

// See fork_server.h.
absl::Status StartServer(const std::vector<std::string>& preload);
void StopServer();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_FORK_SERVER_FORK_CLIENT_H_
