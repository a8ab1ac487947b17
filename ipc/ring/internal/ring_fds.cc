// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/internal/ring_fds.h"

#include <unistd.h>

#include "absl/status/statusor.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {

absl::StatusOr<RingFds> CopyRingFds(int memory, int bell) {
  constexpr char kWhat[] = "a ring";
  RingFds fds;
  TENON_ASSIGN_OR_RETURN(fds.memory, DuplicateFd(memory, kWhat));
  TENON_ASSIGN_OR_RETURN(fds.bell, DuplicateFd(bell, kWhat));
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  TENON_ASSIGN_OR_RETURN(fds.process, DuplicateFd(self.fd(), kWhat));
  return fds;
}

}  // namespace tenon
