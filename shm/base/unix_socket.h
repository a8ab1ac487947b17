// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Questions to AF_UNIX sockets, of which other processes may be holders, too.

#ifndef TENON_SHM_BASE_UNIX_SOCKET_H_
#define TENON_SHM_BASE_UNIX_SOCKET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tenon {

// Threads: any. Nothing here blocks.

// OK if `fd` is an AF_UNIX socket of that type (SOCK_STREAM, ...).
// Errors: kInvalidArgument saying what `what` is not; that it is not open too.
absl::Status CheckIsUnixSocket(int fd, int type, absl::string_view what);
// And is connected. It counts as connected after its peer has closed, as there
// may be something to receive.
absl::Status CheckIsConnectedUnixSocket(int fd, int type,
                                        absl::string_view what);

// What the kernel calls a socket: never the same for two of them
// (SO_COOKIE, socket(7)).
// Errors: kInvalidArgument if it is no socket.
absl::StatusOr<uint64_t> SocketCookie(int socket);

// Whether `socket` is a connected AF_UNIX stream with nothing in it, and its
// peer has closed or shut its end, so that nothing can come: closing it then
// closes no other descriptor (received_fd.h). Changes nothing.
bool StaysEmpty(int socket);

// Shuts a connected AF_UNIX socket for reading, for all of its holders: nothing
// can be sent into it any more. Whether it is one, and nothing is in it. Only
// for sockets that no process reads from; it also sets SO_PASSCRED.
bool ShutAndCheckEmpty(int socket);

}  // namespace tenon

#endif  // TENON_SHM_BASE_UNIX_SOCKET_H_
