// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/orphan_watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/posix_error.h"

namespace tenon::spawn {
namespace {

struct Watch {
  std::vector<pollfd> elders;
  absl::Duration grace;
  int exit_code;
};

// Numbers, not owners: under fork() a child has closed its parent's.
std::vector<int>& TheElders() {
  static std::vector<int>& elders = *new std::vector<int>;
  return elders;
}

bool HasOneEnded(std::vector<pollfd>& elders) {
  if (!PollUntil(elders.data(), elders.size(), Deadline::Never()).ok()) {
    return false;
  }
  for (const pollfd& elder : elders) {
    if ((elder.revents & POLLIN) != 0) return true;
  }
  return false;
}

void* Run(void* argument) {
  const std::unique_ptr<Watch> watch(static_cast<Watch*>(argument));
  // The kernel may be short of memory for the wait; the parent lives even so.
  while (!HasOneEnded(watch->elders)) absl::SleepFor(absl::Milliseconds(100));
  absl::SleepFor(watch->grace);
  _exit(watch->exit_code);
}

absl::Status StartThread(Watch* watch) {
  sigset_t all;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setsigmask_np(&attributes, &all);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, Run, watch);
  pthread_attr_destroy(&attributes);
  if (error == EAGAIN) {
    return absl::ResourceExhaustedError(
        PosixError(error, "pthread_create: clone", "orphan watch").message());
  }
  if (error != 0) return PosixError(error, "pthread_create", "orphan watch");
  return absl::OkStatus();
}

}  // namespace

absl::Status StartOrphanWatch(std::vector<PidFd> elders, absl::Duration grace,
                              int exit_code) {
  static std::vector<PidFd>& kept = *new std::vector<PidFd>;
  auto watch = std::make_unique<Watch>(Watch{{}, grace, exit_code});
  TheElders().clear();
  for (PidFd& elder : elders) {
    watch->elders.push_back({.fd = elder.fd(), .events = POLLIN, .revents = 0});
    TheElders().push_back(elder.fd());
    kept.push_back(std::move(elder));
  }
  if (grace == absl::InfiniteDuration()) return absl::OkStatus();
  absl::Status started = StartThread(watch.get());
  if (started.ok()) static_cast<void>(watch.release());  // The thread's.
  return started;
}

std::vector<int> Elders() { return TheElders(); }

}  // namespace tenon::spawn
