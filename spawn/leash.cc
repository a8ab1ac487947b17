// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/leash.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
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

absl::Status Arm(int fd) {
  if (fcntl(fd, F_SETOWN, -getpid()) == 0 &&
      fcntl(fd, F_SETSIG, SIGKILL) == 0 &&
      fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) == 0) {
    return absl::OkStatus();
  }
  return PosixError(errno, "fcntl", "leash");
}

}  // namespace

absl::Status LeashOwnGroup() {
  if (getpgrp() != getpid()) return absl::OkStatus();
  // Under fork() these are the parent's, and closed.
  reading_end = -1;
  writing_end = -1;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return PosixError(errno, "pipe2", "leash");
  }
  absl::Status armed = Arm(ends[0]);
  if (!armed.ok()) {
    close(ends[1]);
    close(ends[0]);
    return armed;
  }
  reading_end = ends[0];
  writing_end = ends[1];
  static const int registered = pthread_atfork(nullptr, nullptr, LetGo);
  if (registered != 0) return PosixError(registered, "pthread_atfork", "leash");
  return absl::OkStatus();
}

}  // namespace tenon::spawn
