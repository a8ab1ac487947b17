// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/ledger/inbox_owner.h"

#include <sys/socket.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {

// Of a pair of sockets the peer is its maker.
absl::StatusOr<PidFd> OwnerOfInbox(int inbox) {
  absl::StatusOr<PidFd> owner = PidFd::OfPeer(inbox);
  if (!absl::IsUnimplemented(owner.status())) return owner;
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(inbox, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.pid <= 0) {
    return owner;
  }
  return PidFd::Open(peer.pid);
}

bool IsKnownToHaveEnded(const absl::StatusOr<PidFd>& owner) {
  return owner.ok() ? owner->HasEnded() : absl::IsNotFound(owner.status());
}

}  // namespace tenon
