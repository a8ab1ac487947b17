// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What is said between a process and its fork server.
//
//   process                                        server
//   request: settings; the child's control
//     channel, a channel for its fate, working
//     directory, standard streams        ------>
//                                                  (forks)
//     on the channel for the child's fate:
//                                        <------   birth: pid, pidfd; or an
//                                        error
//                                        <------   end: how it ended
//
// So nobody's fate is mixed up with another's, and if the server dies the
// channel is closed.

#ifndef TENON_SPAWN_FORK_REQUEST_H_
#define TENON_SPAWN_FORK_REQUEST_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/pid_fd.h"

namespace tenon::spawn {

struct ForkRequest {
  bool hold_interrupt = false;
  bool own_group = false;
  absl::Duration orphan_grace;
  // All of it: "NAME=value".
  std::vector<std::string> environment;
  // Which of 0, 1, 2 come with it, by bits.
  uint8_t streams = 0;
  // Ends the server, in place of all else.
  bool stop = false;
};

std::string EncodeForkRequest(const ForkRequest& request);
// The bytes may be anything. Errors: kDataLoss.
absl::StatusOr<ForkRequest> DecodeForkRequest(absl::string_view bytes);

struct ForkBirth {
  absl::Status status;
  pid_t pid = -1;
};

std::string EncodeForkBirth(const ForkBirth& birth);
absl::StatusOr<ForkBirth> DecodeForkBirth(absl::string_view bytes);

std::string EncodeForkEnd(const ExitStatus& end);
absl::StatusOr<ExitStatus> DecodeForkEnd(absl::string_view bytes);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_FORK_REQUEST_H_
