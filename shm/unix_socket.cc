// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/unix_socket.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/retry_on_eintr.h"

namespace tenon {
namespace {

bool HasOption(int socket, int option, int value) {
  int is = 0;
  socklen_t size = sizeof(is);
  return getsockopt(socket, SOL_SOCKET, option, &is, &size) == 0 && is == value;
}

}  // namespace

absl::Status CheckIsUnixSocket(int fd, int type, absl::string_view what) {
  int domain = 0;
  int actual = 0;
  socklen_t size = sizeof(int);
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
      getsockopt(fd, SOL_SOCKET, SO_TYPE, &actual, &size) == 0) {
    if (domain == AF_UNIX && actual == type) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, " is a socket of domain ", domain, ", type ", actual,
                     " instead of ", AF_UNIX, ", ", type));
  }
  const int error = errno;
  if (error != ENOTSOCK && error != EBADF) {
    return PosixError(error, "getsockopt", what);
  }
  return absl::InvalidArgumentError(absl::StrCat(what, " is no socket"));
}

absl::StatusOr<uint64_t> SocketCookie(int socket) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  if (getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0) {
    return cookie;
  }
  const int error = errno;
  if (error == ENOTSOCK || error == EBADF) {
    return absl::InvalidArgumentError("the descriptor is no socket");
  }
  return PosixError(error, "getsockopt(SO_COOKIE)", "a socket");
}

bool ShutAndCheckEmpty(int socket) {
  if (!HasOption(socket, SO_DOMAIN, AF_UNIX)) return false;
  shutdown(socket, SHUT_RD);
  int unread = 0;
  if (ioctl(socket, FIONREAD, &unread) != 0 || unread != 0) return false;
  if (HasOption(socket, SO_TYPE, SOCK_STREAM)) return true;
  // A packet of no bytes counts for nothing there. With this option each comes
  // with credentials, for which there is no room here; the end does not.
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  msghdr header = {};
  const auto peek = [&] {
    return recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);
  };
  ssize_t got = RetryOnEintr(peek);
  // That the peer has ended with something unread of its own is said once.
  if (got < 0) got = RetryOnEintr(peek);
  return got == 0 && (header.msg_flags & MSG_CTRUNC) == 0;
}

}  // namespace tenon
