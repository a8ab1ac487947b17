// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/leash.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"

namespace tenon::spawn {
namespace {

absl::Status KillOnEvent(int fd) {
  const pid_t self = getpid();
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 &&
      fcntl(fd, F_SETOWN, getpgrp() == self ? -self : self) == 0 &&
      fcntl(fd, F_SETSIG, SIGKILL) == 0 &&
      fcntl(fd, F_SETFL, flags | O_ASYNC) == 0) {
    return absl::OkStatus();
  }
  return PosixError(errno, "fcntl", "leash");
}

}  // namespace

absl::Status PutOnLeash(UniqueFd leash) {
  TENON_RETURN_IF_ERROR(KillOnEvent(leash.get()));
  // It may have been closed before anybody was told.
  pollfd end = {.fd = leash.get(), .events = POLLIN, .revents = 0};
  TENON_RETURN_IF_ERROR(PollUntil(&end, 1, Deadline::Passed()).status());
  if (end.revents == 0) return absl::OkStatus();
  return absl::UnavailableError("leash: the guardian has ended");
}

}  // namespace tenon::spawn
