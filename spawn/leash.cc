// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/leash.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#include "absl/status/status.h"
#include "tenon/shm/posix_error.h"

namespace tenon::spawn {
namespace {

// Of this process; -1 if it has none. Atomic for fork() in any thread.
std::atomic<int> reading_end{-1};
std::atomic<int> writing_end{-1};

// In a forked child, which is led and does not lead. The writing end first: if
// the leader has died meanwhile, this is the closing that the leash waits for.
void LetGo() {
  const int writing = writing_end.exchange(-1);
  const int reading = reading_end.exchange(-1);
  if (writing >= 0) close(writing);
  if (reading >= 0) close(reading);
}

absl::Status SignalOnEvent(int fd, int signal) {
  const pid_t self = getpid();
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0 &&
      fcntl(fd, F_SETOWN, getpgrp() == self ? -self : self) == 0 &&
      fcntl(fd, F_SETSIG, signal) == 0 &&
      fcntl(fd, F_SETFL, flags | O_ASYNC) == 0) {
    return absl::OkStatus();
  }
  return PosixError(errno, "fcntl", "leash");
}

}  // namespace

absl::Status LeashOwnGroup() {
  if (getpgrp() != getpid()) return absl::OkStatus();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return PosixError(errno, "pipe2", "leash");
  // Under fork() what was there was the parent's, and is closed.
  reading_end = ends[0];
  writing_end = ends[1];
  static const int registered = pthread_atfork(nullptr, nullptr, LetGo);
  if (registered != 0) return PosixError(registered, "pthread_atfork", "leash");
  return SignalOnEvent(ends[0], SIGKILL);
}

absl::Status WakeOnHangup(int socket) { return SignalOnEvent(socket, SIGCONT); }

}  // namespace tenon::spawn
