// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The protocol between a process and its fork server.
//
//   process                                        server
//   request: settings; a channel for the answer,
//     working directory; of each child its
//     control channel, stdin, stdout, stderr
//                                        ------>
//                                                  (forks)
//     on the channel for the answer:
//                                        <------   reply: of each child its
//                                                  pid, pidfd, exit pipe; or
//                                                  an error
//
// So answers cannot be mixed up, and if the server dies the channel is closed.
// A child's exit is reported by its supervisor (supervisor.h), with or without
// a server.

#ifndef TENON_SPAWN_FORK_SERVER_FORK_REQUEST_H_
#define TENON_SPAWN_FORK_SERVER_FORK_REQUEST_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tenon::spawn {

struct ForkRequest {
  bool hold_interrupt = false;
  uint64_t ignored_signals = 0;
  bool own_group = false;
  absl::Duration orphan_grace;
  // The complete environment: "NAME=value".
  std::vector<std::string> environment;
  // How many. The descriptors of each are its control channel, 0, 1 and 2.
  uint32_t children = 0;
  // Ends the server; all other fields are ignored.
  bool stop = false;
};

std::string EncodeForkRequest(const ForkRequest& request);
// The bytes may be anything. Errors: kDataLoss.
absl::StatusOr<ForkRequest> DecodeForkRequest(absl::string_view bytes);

struct ForkReply {
  absl::Status status;
  std::vector<pid_t> pids;
};

std::string EncodeForkReply(const ForkReply& reply);
absl::StatusOr<ForkReply> DecodeForkReply(absl::string_view bytes);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_FORK_SERVER_FORK_REQUEST_H_
