// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/supervisor/death_pipe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

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
  return PosixError(errno, "fcntl", "death pipe");
}

}  // namespace

absl::Status TieToDeathPipe(UniqueFd death_pipe) {
  TENON_RETURN_IF_ERROR(KillOnEvent(death_pipe.get()));
  // It may have been closed before the settings were made.
  pollfd end = {.fd = death_pipe.get(), .events = POLLIN, .revents = 0};
  if (RetryOnEintr([&] { return poll(&end, 1, 0); }) < 0) {
    return PosixError(errno, "poll", "death pipe");
  }
  if (end.revents == 0) return absl::OkStatus();
  return absl::UnavailableError("death pipe: the supervisor has ended");
}

}  // namespace tenon::spawn
