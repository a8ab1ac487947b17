// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/fork_server/fork_server.h"

#include "absl/status/status.h"
#include "tenon/spawn/fork_server/fork_client.h"

namespace tenon::spawn {

absl::Status StartForkServer(const ForkServerOptions& options) {
  return StartServer(options.preload);
}

void StopForkServer() { StopServer(); }

}  // namespace tenon::spawn
