// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Ancillary data: the descriptors beside a datagram, into a msghdr and out of
// one (cmsg(3), SCM_RIGHTS). Calls nothing and checks nothing but the layout.
//
//   ControlBuffer control;
//   AttachFds(fds, &control, &message);
//   sendmsg(socket, &message, MSG_NOSIGNAL);
//
//   AttachRoom(&control, &message);
//   recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
//   Ancillary ancillary = TakeAncillary(&message);

#ifndef TENON_IPC_CHANNEL_ANCILLARY_H_
#define TENON_IPC_CHANNEL_ANCILLARY_H_

#include <sys/socket.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// The most descriptors that the kernel passes in one message, its SCM_MAX_FD.
inline constexpr size_t kMaxFdsInMessage = 253;

// Room for the control data of one message, with a reserve for the options of a
// socket (credentials, a label, a pidfd): if those did not fit, the kernel
// would report it as it reports descriptors lost at a limit.
struct ControlBuffer {
  static constexpr size_t kToSpare = 1024;

  alignas(cmsghdr) char bytes[CMSG_SPACE(kMaxFdsInMessage * sizeof(int)) +
                              kToSpare];
};

// Makes `message` carry `fds`, at most kMaxFdsInMessage; with none it carries
// no control data. They stay the caller's; `control` must outlive `message`.
void AttachFds(absl::Span<const int> fds, ControlBuffer* control,
               msghdr* message);

// The same, and `credentials` of the sender, which the kernel verifies
// (SCM_CREDENTIALS); the receiver sees the numbers of the same process and user
// in its own namespaces.
void AttachFdsAndCredentials(absl::Span<const int> fds,
                             const ucred& credentials, ControlBuffer* control,
                             msghdr* message);

// Makes `message` receive control data into `control`.
void AttachRoom(ControlBuffer* control, msghdr* message);

// The control data of a received message.
struct Ancillary {
  std::vector<UniqueFd> fds;  // All received descriptors, wanted or not.
  // The sender, where the socket has SO_PASSCRED.
  std::optional<ucred> credentials;
  bool has_others = false;  // There was other control data.
};

// Takes over the descriptors in the control data that recvmsg() has written.
// Call it once for every message, whatever its use: until then the descriptors
// have no owner.
Ancillary TakeAncillary(msghdr* message);

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_ANCILLARY_H_
