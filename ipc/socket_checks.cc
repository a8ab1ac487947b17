// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/socket_checks.h"

#include <errno.h>
#include <sys/socket.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/status_macros.h"

namespace tenon {
namespace {

absl::Status CannotAdopt(int fd, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("file descriptor ", fd, " cannot become a channel: ", why));
}

absl::Status CheckOption(int fd, int option, int wanted,
                         absl::string_view otherwise) {
  int value = 0;
  socklen_t size = sizeof(value);
  if (getsockopt(fd, SOL_SOCKET, option, &value, &size) != 0) {
    return CannotAdopt(
        fd, errno == ENOTSOCK ? "it is not a socket" : "it is not open");
  }
  return value == wanted ? absl::OkStatus() : CannotAdopt(fd, otherwise);
}

}  // namespace

absl::Status CheckChannelSocket(int fd) {
  TENON_RETURN_IF_ERROR(
      CheckOption(fd, SO_DOMAIN, AF_UNIX, "it is not an AF_UNIX socket"));
  TENON_RETURN_IF_ERROR(CheckOption(fd, SO_TYPE, SOCK_SEQPACKET,
                                    "it is not a SOCK_SEQPACKET socket"));
  TENON_RETURN_IF_ERROR(
      CheckOption(fd, SO_ACCEPTCONN, 0, "it listens for connections"));
  sockaddr_storage peer;
  socklen_t size = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) {
    return CannotAdopt(fd, "it is not connected");
  }
  return absl::OkStatus();
}

}  // namespace tenon
