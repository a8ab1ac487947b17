// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Queries of AF_UNIX sockets, which other processes may hold, too.

#ifndef TENON_SHM_BASE_UNIX_SOCKET_H_
#define TENON_SHM_BASE_UNIX_SOCKET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Threads: any. Nothing here blocks.

// OK if `fd` is an AF_UNIX socket of that type (SOCK_STREAM, ...).
// Errors: kInvalidArgument with `what`, if it is of another type or not open.
absl::Status CheckIsUnixSocket(int fd, int type, absl::string_view what);
// And is connected. It counts as connected after its peer has closed, as there
// may be data to receive.
absl::Status CheckIsConnectedUnixSocket(int fd, int type,
                                        absl::string_view what);

// The kernel's id of a socket, unique among sockets (SO_COOKIE, socket(7)).
// Errors: kInvalidArgument if it is not a socket.
absl::StatusOr<uint64_t> SocketCookie(int socket);

// Whether `socket` is a connected AF_UNIX stream that is empty, and whose peer
// has closed or shut its end, so that no message can arrive: closing it then
// closes no other descriptor (received_fd.h). Changes nothing.
bool StaysEmpty(int socket);

// Shuts a connected AF_UNIX socket for reading, for all of its holders: no
// message can be sent into it any more. Returns whether it is such a socket and
// empty. Only for sockets that no process reads from; also sets SO_PASSCRED.
bool ShutAndCheckEmpty(int socket);

}  // namespace tenon

#endif  // TENON_SHM_BASE_UNIX_SOCKET_H_
