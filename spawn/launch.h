// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Launch: starts this program anew as child processes, or forks them, under a
// guardian (guardian.h).

#ifndef TENON_SPAWN_LAUNCH_H_
#define TENON_SPAWN_LAUNCH_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/spawn/guardian.h"

namespace tenon::spawn {

// The descriptors that a child gets.
struct ChildFds {
  int control;  // As its kControlFd.
  // As its 1 and 2, each above 3; -1: as they are here.
  int standard_output = -1;
  int standard_error = -1;
};

struct LaunchOptions {
  // Whether SIGINT is blocked: the child can then choose to ignore it before it
  // can be hit by it.
  bool hold_interrupt = false;
  GuardianOptions guardian = {};
  // Added to the environment, or in place of what is there of that name.
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// Starts /proc/self/exe as often as there are `fds`, at most kMaxGuarded times,
// with the arguments {ProgramName(), kChildFlag}, under one guardian; returns
// once all have begun. Each child inherits the environment, the working
// directory, descriptors 0, 1, 2, what `fds` says, and its kLeashFd; no other
// descriptor, close-on-exec or not. Every signal has its default action and
// none is blocked, except as the options say.
// Errors: kResourceExhausted at a limit of processes or memory, naming it;
// otherwise what posix_spawn() reports, or StartGuarded().
absl::StatusOr<GuardedChildren> Launch(absl::Span<const ChildFds> fds,
                                       const LaunchOptions& options);

// The same by fork(): in each child, `run` is called, which must not return,
// with descriptors, signals and environment as above. What this process has not
// flushed of stdout and stderr is flushed before, so that it comes out once.
absl::StatusOr<GuardedChildren> LaunchByFork(absl::Span<const ChildFds> fds,
                                             const LaunchOptions& options,
                                             void (*run)());

// This process's environment with `added`: "NAME=value" each.
std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& added);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_LAUNCH_H_
