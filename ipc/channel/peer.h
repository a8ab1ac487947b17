// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PeerProcess: the process at the other end of a channel.
//
//   TENON_ASSIGN_OR_RETURN(Channel channel, listener.Accept(deadline));
//   const PeerProcess& peer = *channel.peer();
//   // "process 4712 of user 1000"; peer.pid_fd is readable once it has ended.
//
// Connect() and Listener::Accept() (listener.h) identify it. The two ends of a
// socketpair have no identity of their own (SO_PEERCRED names the process that
// made the pair, at both ends): a process that starts another one and passes it
// an end knows its pidfd, and sets it with Channel::SetPeer().

#ifndef TENON_IPC_CHANNEL_PEER_H_
#define TENON_IPC_CHANNEL_PEER_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "tenon/shm/base/random_id.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {

// Ownership: owns the pidfd. Threads: thread-compatible.
// Processes: the numbers are valid in the namespaces of the process that made
//   the connection.
struct PeerProcess {
  // Identifies the process; its number does not, because numbers are reused.
  // The kernel vouches for it, except, before Linux 6.5, for a process that
  // cannot be seen from here: then it is the peer's own word. Absent, before
  // Linux 6.5, if /proc is not mounted, without which pidfds cannot be
  // compared.
  std::optional<PidFd> pid_fd;
  // In this pid namespace; 0 if the process cannot be seen from here.
  pid_t pid = 0;
  // In this user namespace, at the time of the connection.
  uid_t uid = 0;
  gid_t gid = 0;
  // Chosen by the peer, and announced to each process that it connects to: two
  // connections of one process have the same id. The peer's own word.
  RandomId id;

  // "process 4712 of user 1000", "a process of user 1000 that cannot be seen
  // from this pid namespace".
  std::string ToString() const;
};

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_PEER_H_
