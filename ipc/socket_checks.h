// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a socket must be before it can become a Channel. Changes nothing.

#ifndef TENON_IPC_SOCKET_CHECKS_H_
#define TENON_IPC_SOCKET_CHECKS_H_

#include "absl/status/status.h"

namespace tenon {

// OK if `fd` is a connected AF_UNIX SOCK_SEQPACKET socket. It counts as
// connected after its peer has closed, as there may be something to receive.
// Errors: kInvalidArgument, saying what it is not; that it is not open too.
absl::Status CheckChannelSocket(int fd);

}  // namespace tenon

#endif  // TENON_IPC_SOCKET_CHECKS_H_
