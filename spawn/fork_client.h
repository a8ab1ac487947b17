// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// This process's side of its fork server (fork_server.h). Not for users.

#ifndef TENON_SPAWN_FORK_CLIENT_H_
#define TENON_SPAWN_FORK_CLIENT_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/spawn/launch.h"

namespace tenon::spawn {

struct ForkedByServer {
  pid_t pid;
  PidFd pid_fd;
  // Tells its end (fork_request.h).
  Channel fate;
};

// As Launch(), of a child of the server, which is started if there is none, and
// replaced if it has died. Thread-safe.
// Errors: kUnavailable if the server dies meanwhile; what it says.
absl::StatusOr<ForkedByServer> LaunchByServer(int control_fd,
                                              const LaunchOptions& options,
                                              absl::Duration orphan_grace);

// As fork_server.h has them.
absl::Status StartServer(const std::vector<std::string>& preload);
void StopServer();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_FORK_CLIENT_H_
