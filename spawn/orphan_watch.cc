// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/orphan_watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/posix_error.h"

namespace tenon::spawn {
namespace {

struct Watch {
  PidFd parent;
  absl::Duration grace;
  int exit_code;
};

void* Run(void* argument) {
  const std::unique_ptr<Watch> watch(static_cast<Watch*>(argument));
  // The kernel may be short of memory for the wait; the parent lives even so.
  while (!watch->parent.WaitForEnd(Deadline::Never()).ok()) {
    absl::SleepFor(absl::Milliseconds(100));
  }
  absl::SleepFor(watch->grace);
  _exit(watch->exit_code);
}

}  // namespace

absl::Status StartOrphanWatch(PidFd parent, absl::Duration grace,
                              int exit_code) {
  auto watch =
      std::make_unique<Watch>(Watch{std::move(parent), grace, exit_code});
  sigset_t all;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setsigmask_np(&attributes, &all);
  pthread_t thread;
  const int error = pthread_create(&thread, &attributes, Run, watch.get());
  pthread_attr_destroy(&attributes);
  if (error == EAGAIN) {
    return absl::ResourceExhaustedError(
        PosixError(error, "pthread_create: clone", "orphan watch").message());
  }
  if (error != 0) return PosixError(error, "pthread_create", "orphan watch");
  static_cast<void>(watch.release());  // The thread's.
  return absl::OkStatus();
}

}  // namespace tenon::spawn
