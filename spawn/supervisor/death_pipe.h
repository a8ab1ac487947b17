// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The death pipe: the kernel kills a child and its process group when its
// supervisor (supervisor.h) ends, however it ends.
//
// A descriptor can report events by a signal (O_ASYNC, F_SETSIG) to a process
// group (F_SETOWN). When a process ends, the kernel closes its descriptors, and
// closing the last descriptor of one end of a pipe is an event at the other. So
// no living process has to act, and no group number is involved that could have
// been reused: the kernel holds the group itself.
//
// The supervisor owns both ends of the pipe. The child gets a descriptor of the
// reading end, and sets on it the group to be killed: the setting applies to
// the supervisor's descriptor too, which is the same file. When a process ends,
// its descriptors are closed from the last to the first (since Linux 4.3): the
// supervisor's reading end is below its writing end, so it is still open when
// the writing end closes.

#ifndef TENON_SPAWN_SUPERVISOR_DEATH_PIPE_H_
#define TENON_SPAWN_SUPERVISOR_DEATH_PIPE_H_

#include "absl/status/status.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {

// From now on, the kernel kills this process and its process group, if it leads
// one, when all descriptors of the other end of `death_pipe`, a pipe, have been
// closed. Errors: kUnavailable if they are closed already; kInvalidArgument if
// `death_pipe` is not the reading end of a pipe.
absl::Status TieToDeathPipe(UniqueFd death_pipe);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SUPERVISOR_DEATH_PIPE_H_
