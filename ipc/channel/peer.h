// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PeerProcess: the process at the other end of a channel.
//
//   TENON_ASSIGN_OR_RETURN(Channel channel, listener.Accept(deadline));
//   const PeerProcess& peer = *channel.peer();
//   // "process 4712 of user 1000"; peer.pid_fd is readable once it has ended.
//
// Connect() and Listener::Accept() (listener.h) identify it. The two
// ends of a socketpair have no identity of their own (SO_PEERCRED names the
// process that made the pair, at both ends): who starts a process and gives it
// an end knows its pidfd, and says so with Channel::SetPeer().

#ifndef TENON_IPC_CHANNEL_PEER_H_
#define TENON_IPC_CHANNEL_PEER_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/random_id.h"

namespace tenon {

// Ownership: owns the pidfd. Threads: thread-compatible.
// Processes: what the numbers mean holds in the namespaces of the process that
//   made the connection.
struct PeerProcess {
  // Known by this, and never by its number, which is given again. The kernel
  // vouches for it, but for that of a process that cannot be seen from here,
  // before Linux 6.5: that one is the peer's own word. Absent, before
  // Linux 6.5, if /proc is not mounted, without which pidfds cannot be
  // compared.
  std::optional<PidFd> pid_fd;
  // In this pid namespace; 0 if the process cannot be seen from here.
  pid_t pid = 0;
  // As they are called in this user namespace, when the connection was made.
  uid_t uid = 0;
  gid_t gid = 0;
  // Which the peer made up for itself and tells each process that it connects
  // to: two connections of one process have the same. Its own word.
  RandomId id;

  // "process 4712 of user 1000", "a process of user 1000 that cannot be seen
  // from this pid namespace".
  std::string ToString() const;
};

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_PEER_H_
