// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The handshake of two unrelated processes over a connected socket: each sends
// a hello (hello.h) with its own pidfd and its credentials, and verifies the
// other's. The connecting process sends first.
//
//   TENON_RETURN_IF_ERROR(BeginHandshake(socket, options));
//   TENON_RETURN_IF_ERROR(SendHello(socket, self));
//   ... until it is there: TENON_ASSIGN_OR_RETURN(peer, TakeHello(...));
//
// Trusted data: the credentials, which the kernel checks when they are sent.
//   They must be those of the process and user that made the connection, for
//   which the kernel vouches (SO_PEERCRED). The pidfd must be that of this
//   process, according to SO_PEERPIDFD (Linux 6.5). Without that option, it
//   must be the pidfd of the process with the sender's number; the pidfd of a
//   process that has no number in this pid namespace is accepted as sent. No
//   call here blocks.

#ifndef TENON_IPC_LISTENER_HANDSHAKE_H_
#define TENON_IPC_LISTENER_HANDSHAKE_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {

struct HandshakeOptions {
  // Otherwise only processes of this process's effective user.
  bool allow_other_users = false;
  // Whether the peer may send a refusal: a listener may, a connecting process
  // may not.
  bool may_be_refused = false;
};

// The identity that this process announces.
struct Self {
  PidFd pid_fd;
  RandomId id;

  // Errors: kResourceExhausted at the limit of descriptors; getentropy()'s.
  static absl::StatusOr<Self> Get();
};

// Checks the user at the other end before any message is sent, and prepares the
// socket. Errors: kPermissionDenied naming both users; setsockopt()'s.
absl::Status BeginHandshake(int socket, const HandshakeOptions& options);

// Errors: kUnavailable if the peer has gone; kResourceExhausted naming the
// limit of descriptors in flight.
absl::Status SendHello(int socket, const Self& self);

// Tells the peer why there will be no channel, as far as possible.
void SendRefusal(int socket, const absl::Status& why);

// Takes the peer's hello; nullopt if it has not arrived yet. Errors, all of
// which end the handshake:
//   kUnavailable        the peer has gone
//   kPermissionDenied   it is another user's, or not the process it claims
//   kDataLoss           the message is not a hello
//   kResourceExhausted  this process may not open another descriptor
//   the peer's own      it has sent a refusal
absl::StatusOr<std::optional<PeerProcess>> TakeHello(
    int socket, const HandshakeOptions& options);

}  // namespace tenon

#endif  // TENON_IPC_LISTENER_HANDSHAKE_H_
