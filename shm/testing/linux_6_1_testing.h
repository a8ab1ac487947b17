// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of Linux 6.1, the oldest supported kernel, without features of
// newer ones: SO_PASSPIDFD and SO_PEERPIDFD (6.5), and pidfs (6.9).

#ifndef TENON_SHM_TESTING_LINUX_6_1_TESTING_H_
#define TENON_SHM_TESTING_LINUX_6_1_TESTING_H_

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/seccomp_testing.h"

namespace tenon {

// From now on, permanently, pidfds have no inodes of their own in this process
// and its children; fstatfs() cannot recognise memfds either, so segments have
// to be created before.
inline bool HidePidFs() {
  return FailSystemCall({.number = SYS_fstatfs, .error = ENOSYS});
}

// The same for the socket options by which the kernel returns pidfds.
inline bool HidePidFdsOfSockets() {
  constexpr int kPassPidFd = 76;  // SO_PASSPIDFD
  constexpr int kPeerPidFd = 77;  // SO_PEERPIDFD
  return FailSystemCall({.number = SYS_getsockopt,
                         .argument = 2,
                         .value = kPeerPidFd,
                         .error = ENOPROTOOPT}) &&
         FailSystemCall({.number = SYS_setsockopt,
                         .argument = 2,
                         .value = kPassPidFd,
                         .error = ENOPROTOOPT});
}

// Whether the kernel sends its own pidfd of a sender, as from Linux 6.5 on.
inline bool KernelSendsPidFds() {
  constexpr int kPassPidFd = 76;  // SO_PASSPIDFD
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const int on = 1;
  return setsockopt(socket.get(), SOL_SOCKET, kPassPidFd, &on, sizeof(on)) == 0;
}

}  // namespace tenon

#endif  // TENON_SHM_TESTING_LINUX_6_1_TESTING_H_
