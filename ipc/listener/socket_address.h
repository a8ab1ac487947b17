// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SocketAddress: the address of a Listener, as text and in the kernel's form.
//
//   "/run/user/1000/tenon/camera"   a socket file
//   "@tenon-1f0c5e0a9d3b47d28a..."  an abstract name (unix(7)): no file

#ifndef TENON_IPC_LISTENER_SOCKET_ADDRESS_H_
#define TENON_IPC_LISTENER_SOCKET_ADDRESS_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tenon {

struct SocketAddress {
  sockaddr_un address = {};
  socklen_t size = 0;

  // Errors: kInvalidArgument naming the limit if it is too long;
  // kInvalidArgument if it is neither an absolute path nor "@" and a name, or
  // contains a zero byte.
  static absl::StatusOr<SocketAddress> Parse(absl::string_view text);

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&address);
  }
};

// An unguessable abstract name: "@", `prefix`, a dash and 128 random
// bits in hex. Errors: kInvalidArgument for a prefix as of CheckShmPrefix();
// getentropy()'s.
absl::StatusOr<std::string> MakeAbstractName(absl::string_view prefix);

}  // namespace tenon

#endif  // TENON_IPC_LISTENER_SOCKET_ADDRESS_H_
