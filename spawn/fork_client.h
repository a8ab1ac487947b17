// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// This process's side of its fork server (fork_server.h). Not for users.

#ifndef TENON_SPAWN_FORK_CLIENT_H_
#define TENON_SPAWN_FORK_CLIENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/spawn/guardian.h"
#include "tenon/spawn/launch.h"

namespace tenon::spawn {

// As Launch(), of children of the server, which is started if there is none,
// and replaced if it has died. Its elders are those of the server:
// options.guardian is to name none. Thread-safe. Errors: kUnavailable if the
// server dies meanwhile; what it says.
absl::StatusOr<GuardedChildren> LaunchByServer(absl::Span<const ChildFds> fds,
                                               const LaunchOptions& options);

// As fork_server.h has them.
absl::Status StartServer(const std::vector<std::string>& preload);
void StopServer();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_FORK_CLIENT_H_
