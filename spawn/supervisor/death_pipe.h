// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The death_pipe: the kernel kills a child and its process group when its
// supervisor (supervisor.h) ends, in whatever way.
//
// Descriptors can tell of events by a signal (O_ASYNC, F_SETSIG) to a process
// group (F_SETOWN). When a process ends, the kernel closes its descriptors, and
// the last closing of one end of a pipe is an event at the other. So it needs
// nobody who is still alive to act, and no number of a group that could have
// come to mean another: the kernel holds the group itself.
//
// Both ends of the pipe are the supervisor's. The child gets the reading end
// first, and says there who is to be killed: what it says holds for the
// supervisor's descriptor too, which is the same file. When a process ends,
// what it had open is let go last to first (since Linux 4.3): the supervisor's
// reading end is before its writing end, so it is still there when that goes.

#ifndef TENON_SPAWN_SUPERVISOR_DEATH_PIPE_H_
#define TENON_SPAWN_SUPERVISOR_DEATH_PIPE_H_

#include "absl/status/status.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {

// From now on, this process and its process group, if it leads one, are killed
// when the other end of `death_pipe`, a pipe, has been closed by all who have
// it. Errors: kUnavailable if it has been closed already; kInvalidArgument if
// `death_pipe` is not the reading end of a pipe.
absl::Status TieToDeathPipe(UniqueFd death_pipe);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SUPERVISOR_DEATH_PIPE_H_
