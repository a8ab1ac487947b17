// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Connect() of listener.h.

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/ipc/listener/handshake.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/ipc/listener/socket_address.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// The first pause before a retry of a listener that has dropped the connection.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(50);

absl::Status TooLate(absl::string_view address) {
  return absl::DeadlineExceededError(
      absl::StrCat("Connect(): the listener at ", address,
                   " has not accepted before the deadline"));
}

// How long connect() waits for an entry in the listener's queue: the only wait
// for one that keeps the order of waiters.
absl::Status SetPatience(int socket, Deadline deadline) {
  const absl::Duration patience =
      std::clamp(deadline.Remaining(), absl::Milliseconds(1), absl::Hours(1));
  const timeval timeout = absl::ToTimeval(patience);
  if (setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) ==
      0) {
    return absl::OkStatus();
  }
  return PosixError(errno, "setsockopt(SO_SNDTIMEO)", "a connection");
}

absl::StatusOr<UniqueFd> ConnectSocket(absl::string_view name,
                                       const SocketAddress& address,
                                       Deadline deadline) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return PosixError(errno, "socket", "AF_UNIX");
  for (;;) {
    TENON_RETURN_IF_ERROR(SetPatience(socket.get(), deadline));
    if (connect(socket.get(), address.get(), address.size) == 0) break;
    if (errno != EINTR && errno != EAGAIN) {
      return PosixError(errno, "connect", name);
    }
    if (deadline.has_passed()) return TooLate(name);
  }
  TENON_CRASH_POINT("connect.connected");
  return socket;
}

absl::StatusOr<PeerProcess> AwaitHello(absl::string_view name, int socket,
                                       const HandshakeOptions& options,
                                       Deadline deadline) {
  for (;;) {
    TENON_ASSIGN_OR_RETURN(std::optional<PeerProcess> peer,
                           TakeHello(socket, options));
    if (peer) return *std::move(peer);
    pollfd fd = {.fd = socket, .events = POLLIN, .revents = 0};
    TENON_ASSIGN_OR_RETURN(const int ready, PollUntil({&fd, 1}, deadline));
    if (ready == 0) return TooLate(name);
  }
}

// One try. Sets `dropped` if the listener accepted and then closed the
// connection.
absl::StatusOr<Channel> TryToConnect(absl::string_view name,
                                     const SocketAddress& address,
                                     const Self& self, Deadline deadline,
                                     const ConnectOptions& options,
                                     bool* dropped) {
  *dropped = false;
  TENON_ASSIGN_OR_RETURN(UniqueFd socket,
                         ConnectSocket(name, address, deadline));
  const HandshakeOptions handshake = {
      .allow_other_users = options.allow_other_users, .may_be_refused = true};
  TENON_RETURN_IF_ERROR(BeginHandshake(socket.get(), handshake));
  const absl::Status sent = SendHello(socket.get(), self);
  // A listener that has refused already is gone, but has sent the reason.
  if (!sent.ok() && !absl::IsUnavailable(sent)) return sent;
  absl::StatusOr<PeerProcess> peer =
      AwaitHello(name, socket.get(), handshake, deadline);
  *dropped = absl::IsUnavailable(peer.status());
  TENON_RETURN_IF_ERROR(peer.status());
  TENON_ASSIGN_OR_RETURN(Channel channel,
                         Channel::Adopt(std::move(socket), options.channel));
  channel.SetPeer(*std::move(peer));
  return channel;
}

}  // namespace

absl::StatusOr<Channel> Connect(absl::string_view address, Deadline deadline,
                                const ConnectOptions& options) {
  TENON_ASSIGN_OR_RETURN(const SocketAddress where,
                         SocketAddress::Parse(address));
  TENON_ASSIGN_OR_RETURN(const Self self, Self::Get());
  absl::Duration pause = kFirstPause;
  for (;;) {
    bool dropped = false;
    absl::StatusOr<Channel> channel =
        TryToConnect(address, where, self, deadline, options, &dropped);
    if (channel.ok() || !dropped || deadline.has_passed()) return channel;
    TENON_RETURN_IF_ERROR(
        PollUntil({}, Earlier(deadline, Deadline::After(pause))).status());
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace tenon
