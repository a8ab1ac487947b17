// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The handshake of two processes that are not related, over a connected socket:
// each sends a hello (hello.h) with its own pidfd and its credentials, and
// looks at the other's. One that connects speaks first.
//
//   TENON_RETURN_IF_ERROR(BeginHandshake(socket, options));
//   TENON_RETURN_IF_ERROR(SendHello(socket, self));
//   ... until it is there: TENON_ASSIGN_OR_RETURN(peer, TakeHello(...));
//
// What is believed: credentials, which the kernel checks when they are sent.
// They must be those of the process and user that made the connection, for whom
// the kernel vouches (SO_PEERCRED). The pidfd must be that of this process:
// SO_PEERPIDFD (Linux 6.5) says. Without it, it must be the pidfd of the
// process that has the sender's number; one that has none in this pid namespace
// is taken at its word. No call here blocks.

#ifndef TENON_IPC_LISTENER_HANDSHAKE_H_
#define TENON_IPC_LISTENER_HANDSHAKE_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/random_id.h"

namespace tenon {

struct HandshakeOptions {
  // Else only processes of the effective user of this one.
  bool allow_other_users = false;
  // Whether the peer may refuse: the one that listens may, the one that
  // connects has no reason to.
  bool may_be_refused = false;
};

// What this process says of itself.
struct Self {
  PidFd pid_fd;
  RandomId id;

  // Errors: kResourceExhausted at the limit of descriptors; getentropy()'s.
  static absl::StatusOr<Self> Get();
};

// Checks the user at the other end before anything is said, and prepares the
// socket. Errors: kPermissionDenied naming both users; setsockopt()'s.
absl::Status BeginHandshake(int socket, const HandshakeOptions& options);

// Errors: kUnavailable if the peer has gone; kResourceExhausted naming the
// limit of descriptors in flight.
absl::Status SendHello(int socket, const Self& self);

// Tells the peer why there will be no channel, as far as that is possible.
void SendRefusal(int socket, const absl::Status& why);

// Takes the peer's hello. Nothing: it has not come yet.
// Errors, all of which end the handshake:
//   kUnavailable        the peer has gone
//   kPermissionDenied   it is another user's, or not the process it claims
//   kDataLoss           it sent something else
//   kResourceExhausted  this process may not open another descriptor
//   the peer's own      it has refused
absl::StatusOr<std::optional<PeerProcess>> TakeHello(
    int socket, const HandshakeOptions& options);

}  // namespace tenon

#endif  // TENON_IPC_LISTENER_HANDSHAKE_H_
