// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Listener and Connect: channels between processes that are not related.
//
//   TENON_ASSIGN_OR_RETURN(Listener listener, Listener::CreateAbstract());
//   // listener.name() goes to the other process: an argument, a file.
//   TENON_ASSIGN_OR_RETURN(Channel channel, listener.Accept(deadline));
//
//   // The other process:
//   TENON_ASSIGN_OR_RETURN(Channel channel, Connect(name, deadline));
//   const PeerProcess& server = *channel.peer();  // Vouched for by the kernel.
//
// An abstract name (unix(7)) has no file and no permissions: it is 128 random
// bits, so that no process can take it first, and both sides check the process
// at the other end. A path is in a directory that is this user's alone.

#ifndef TENON_IPC_LISTENER_LISTENER_H_
#define TENON_IPC_LISTENER_LISTENER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

struct ListenerOptions {
  // Of the channels that Accept() gives.
  ChannelOptions channel;
  // Else only processes of this process's effective user.
  bool allow_other_users = false;
  // How long a connection may take to identify itself.
  absl::Duration handshake_patience = absl::Seconds(5);
  // The most such connections, at least 1. With one more, the oldest one of the
  // user with the most of them is dropped.
  size_t max_unfinished = 64;
};

struct ConnectOptions {
  ChannelOptions channel;
  bool allow_other_users = false;
};

// Ownership: owns its sockets; destruction closes connections not yet accepted,
//   and removes its socket file if that is still its own.
// Threads: thread-compatible; has none of its own.
// Processes: inert in a forked child: calls fail with kFailedPrecondition, the
//   file stays. A killed process leaves its file, which the next listener
//   replaces.
// Trust: a connecting process is verified (handshake.h) before Accept() returns
//   the channel. A silent or flooding process delays an honest one by no more
//   than its own entry in the kernel's queue.
// Failure: see Accept().
class Listener {
 public:
  // Listens under a name of its own. Errors: kInvalidArgument for a prefix as
  // of CheckShmPrefix() or bad options; kResourceExhausted at a limit of
  // descriptors.
  static absl::StatusOr<Listener> CreateAbstract(
      absl::string_view prefix = "tenon", const ListenerOptions& options = {});

  // Listens at a path. Its directory must belong to this user, have mode 0700
  // and not be a symbolic link. The file of a dead listener is replaced.
  // Errors: as above; kAlreadyExists if another process listens there;
  // kFailedPrecondition if the file is not a socket; kNotFound if there is no
  // such directory;
  // kPermissionDenied naming owner and mode if it is open to others;
  // kUnavailable if another process has been creating a listener in the
  // directory for a second.
  static absl::StatusOr<Listener> CreateAtPath(
      absl::string_view path, const ListenerOptions& options = {});

  // Takes over a socket of SOCK_SEQPACKET that listens already, as those of
  // socket activation by systemd do. From now on the kernel vouches for this
  // process. Connections that are queued are closed, because it vouches to them
  // for the process that made the socket: Connect() tries again if that was a
  // process of the same user, and fails with kPermissionDenied otherwise. A
  // socket file stays, as it belongs to the maker of the socket. The backlog
  // becomes 128 for all processes that have the socket open.
  // Errors: kInvalidArgument if it is not such a socket; kResourceExhausted if
  // queued connections cannot be closed at a limit of descriptors.
  static absl::StatusOr<Listener> Adopt(UniqueFd socket,
                                        const ListenerOptions& options = {});

  ~Listener();
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;

  // For Connect(): the path, or "@" and the abstract name.
  const std::string& name() const;

  // For poll(): an epoll descriptor, readable when a process connects or
  // identifies itself, which need not lead to a channel: call Accept() with a
  // passed deadline. An expired handshake_patience does not make it readable:
  // that connection is dropped at the next call. Still owned here.
  int fd() const;

  // Returns the next channel; blocks until `deadline`. A rejected process is
  // told the reason and counted; the call goes on.
  // Errors, all of which leave the listener usable:
  //   kDeadlineExceeded   no acceptable process connected
  //   kResourceExhausted  this process may not open another descriptor (the
  //                       error names the limit). A connection that could not
  //                       be accepted stays in the kernel's queue; one that
  //                       could not be answered is told so
  absl::StatusOr<Channel> Accept(Deadline deadline);

  struct Counts {
    uint64_t accepted = 0;
    uint64_t refused = 0;  // For malformed data or their identity.
    uint64_t dropped = 0;  // For silence, or closed by the peer.
    size_t unfinished = 0;
  };
  Counts counts() const;

 private:
  class State;
  explicit Listener(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// Connects to a listener and waits until it has accepted: the listener must
// call Accept() meanwhile. Retries if the listener drops the connection under a
// flood. Blocks until `deadline`.
// Errors: kDeadlineExceeded; kUnavailable if no process listens there (any
// more); kNotFound if there is no such path; kPermissionDenied if the listener
// is another user's, or rejects this process; kInvalidArgument for a bad
// address; kDataLoss if the peer is not a listener of this version;
// kResourceExhausted at a limit of descriptors, here or there.
absl::StatusOr<Channel> Connect(absl::string_view address, Deadline deadline,
                                const ConnectOptions& options = {});

}  // namespace tenon

#endif  // TENON_IPC_LISTENER_LISTENER_H_
