// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Launch: starts this program anew as a child process.

#ifndef TENON_SPAWN_LAUNCH_H_
#define TENON_SPAWN_LAUNCH_H_

#include <sys/types.h>

#include "absl/status/statusor.h"

namespace tenon::spawn {

// Starts /proc/self/exe as a child with the arguments {ProgramName(),
// kChildFlag} and returns its pid once exec has succeeded. It inherits the
// environment, the working directory, descriptors 0, 1, 2, and `control_fd` as
// its kControlFd; no other descriptor, close-on-exec or not. Every signal has
// its default action and none is blocked, except SIGINT if `hold_interrupt`:
// the child can then choose to ignore it before it can be hit by it.
// Blocks until exec. The caller has to reap the child.
// Errors: kResourceExhausted at a limit of processes or memory, naming it;
// otherwise what posix_spawn() reports.
absl::StatusOr<pid_t> Launch(int control_fd, bool hold_interrupt);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_LAUNCH_H_
