// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/unix_socket.h"

#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

bool HasOption(int socket, int option, int value) {
  int is = 0;
  socklen_t size = sizeof(is);
  return getsockopt(socket, SOL_SOCKET, option, &is, &size) == 0 && is == value;
}

absl::Status IsNot(absl::string_view what, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(what, " is not ", wanted));
}

absl::Status CheckOption(int fd, int option, int value, absl::string_view what,
                         absl::string_view wanted) {
  int is = 0;
  socklen_t size = sizeof(is);
  if (getsockopt(fd, SOL_SOCKET, option, &is, &size) == 0) {
    return is == value ? absl::OkStatus() : IsNot(what, wanted);
  }
  const int error = errno;
  if (error == ENOTSOCK) return IsNot(what, "a socket");
  if (error == EBADF) return IsNot(what, "open");
  return PosixError(error, "getsockopt", what);
}

bool HasUnreadBytes(int socket) {
  int unread = 0;
  return ioctl(socket, FIONREAD, &unread) != 0 || unread != 0;
}

// True also if they were read: the kernel keeps their descriptors in the queue
// until the next byte is read. Reported by kernels since the middle of 2024.
bool HasOutOfBandBytes(int stream) {
  int at_mark = 0;
  return ioctl(stream, SIOCATMARK, &at_mark) == 0 && at_mark != 0;
}

}  // namespace

absl::Status CheckIsUnixSocket(int fd, int type, absl::string_view what) {
  TENON_RETURN_IF_ERROR(
      CheckOption(fd, SO_DOMAIN, AF_UNIX, what, "an AF_UNIX socket"));
  return CheckOption(fd, SO_TYPE, type, what,
                     type == SOCK_SEQPACKET ? "a SOCK_SEQPACKET socket"
                     : type == SOCK_STREAM  ? "a SOCK_STREAM socket"
                                            : "a socket of the wanted type");
}

absl::Status CheckIsConnectedUnixSocket(int fd, int type,
                                        absl::string_view what) {
  TENON_RETURN_IF_ERROR(CheckIsUnixSocket(fd, type, what));
  if (HasOption(fd, SO_ACCEPTCONN, 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " listens for connections"));
  }
  sockaddr_storage peer;
  socklen_t size = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0) {
    return absl::OkStatus();
  }
  return IsNot(what, "connected");
}

absl::StatusOr<uint64_t> SocketCookie(int socket) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0) {
    return cookie;
  }
  const int error = errno;
  if (error == ENOTSOCK || error == EBADF) {
    return absl::InvalidArgumentError("the descriptor is not a socket");
  }
  return PosixError(error, "getsockopt(SO_COOKIE)", "a socket");
}

bool StaysEmpty(int socket) {
  // A packet may have descriptors and no bytes; a message in a stream has some.
  if (!HasOption(socket, SO_DOMAIN, AF_UNIX) ||
      !HasOption(socket, SO_TYPE, SOCK_STREAM)) {
    return false;
  }
  // In this order: no message arrives after the end.
  pollfd end = {.fd = socket, .events = POLLRDHUP, .revents = 0};
  return poll(&end, 1, 0) == 1 && (end.revents & POLLRDHUP) != 0 &&
         !HasUnreadBytes(socket) && !HasOutOfBandBytes(socket);
}

bool ShutAndCheckEmpty(int socket) {
  if (!HasOption(socket, SO_DOMAIN, AF_UNIX)) return false;
  shutdown(socket, SHUT_RD);
  if (HasUnreadBytes(socket)) return false;
  if (HasOption(socket, SO_TYPE, SOCK_STREAM)) return true;
  // recv() returns 0 both for an empty packet and at the end. With this option
  // each packet comes with credentials, for which there is no room here; the
  // end does not.
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  msghdr header = {};
  const auto peek = [&] {
    return recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);
  };
  ssize_t got = RetryOnEintr(peek);
  // The error that the peer ended with unread messages is reported once.
  if (got < 0) got = RetryOnEintr(peek);
  return got == 0 && (header.msg_flags & MSG_CTRUNC) == 0;
}

}  // namespace tenon
