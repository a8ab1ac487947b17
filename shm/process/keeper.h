// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A keeper: a process that must outlive its starter, such as the daemon of
// names. The supervisors of spawn end all descendants of their children; of
// these they spare keepers.
//
//   setsid();  // Else it ends with the process group of its starter.
//   TENON_RETURN_IF_ERROR(BecomeKeeper());
//
// A keeper is known by its name for the kernel (/proc/PID/comm), which contains
// its pid. So exactly this process is spared: a forked child inherits the name
// and has another pid, and a program that is executed has another name. A
// supervisor reads the name when it is about to kill: nothing is announced, so
// nothing is lost with a supervisor that is killed.

#ifndef TENON_SHM_PROCESS_KEEPER_H_
#define TENON_SHM_PROCESS_KEEPER_H_

#include "absl/status/status.h"

namespace tenon {

// Makes this process a keeper until it ends or executes a program. Changes its
// name in ps(1) and top(1). To be called by the main thread.
// Errors: kFailedPrecondition in another thread; prctl()'s.
absl::Status BecomeKeeper();

}  // namespace tenon

#endif  // TENON_SHM_PROCESS_KEEPER_H_
