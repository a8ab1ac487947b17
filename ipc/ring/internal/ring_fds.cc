// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/internal/ring_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "absl/status/statusor.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

absl::StatusOr<UniqueFd> Duplicate(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) {
    return PosixError(errno, "fcntl(F_DUPFD_CLOEXEC)", "a ring");
  }
  return copy;
}

}  // namespace

absl::StatusOr<RingFds> CopyRingFds(int memory, int bell) {
  RingFds fds;
  TENON_ASSIGN_OR_RETURN(fds.memory, Duplicate(memory));
  TENON_ASSIGN_OR_RETURN(fds.bell, Duplicate(bell));
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  TENON_ASSIGN_OR_RETURN(fds.process, Duplicate(self.fd()));
  return fds;
}

}  // namespace tenon
