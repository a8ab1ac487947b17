// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Launch: starts this program anew as a child process, or forks it.

#ifndef TENON_SPAWN_LAUNCH_H_
#define TENON_SPAWN_LAUNCH_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace tenon::spawn {

struct LaunchOptions {
  // Whether SIGINT is blocked: the child can then choose to ignore it before it
  // can be hit by it.
  bool hold_interrupt = false;
  // Whether the child leads a process group of its own.
  bool own_group = false;
  // What become its descriptors 1 and 2, each above 3; -1: as they are here.
  int stdout_fd = -1;
  int stderr_fd = -1;
  // Added to the environment, or in place of what is there of that name.
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// Starts /proc/self/exe as a child with the arguments {ProgramName(),
// kChildFlag} and returns its pid once exec has succeeded. It inherits the
// environment, the working directory, descriptors 0, 1, 2, and `control_fd` as
// its kControlFd; no other descriptor, close-on-exec or not. Every signal has
// its default action and none is blocked, except as the options say.
// Blocks until exec. The caller has to reap the child.
// Errors: kResourceExhausted at a limit of processes or memory, naming it;
// otherwise what posix_spawn() reports.
absl::StatusOr<pid_t> Launch(int control_fd, const LaunchOptions& options);

// The same by fork(): in the child, `run` is called, which must not return,
// with descriptors, signals and environment as above. What this process has not
// flushed of stdout and stderr is flushed before, so that it comes out once.
absl::StatusOr<pid_t> LaunchByFork(int control_fd, const LaunchOptions& options,
                                   void (*run)());

// This process's environment with `added`: "NAME=value" each.
std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& added);

// How many threads this process has; 0 if /proc does not say.
int CountThreads();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_LAUNCH_H_
