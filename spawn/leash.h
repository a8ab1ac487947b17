// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The leash: the kernel kills a process group when its leader has ended.
//
// It is a pipe of which this process has both ends. The reading end is set to
// tell of events by a signal (O_ASYNC), which is SIGKILL, to the process group
// (F_SETOWN). When this process ends, in whatever way, the kernel closes its
// descriptors; the last closing of the writing end is such an event. So it
// needs nobody who is still alive, and no number of a group that could have
// come to mean another: the kernel holds the group itself.
//
// When a process ends, what it had open is let go last to first (since Linux
// 4.3), and pipe2() gives the reading end first: so that is still there when
// the writing end goes.

#ifndef TENON_SPAWN_LEASH_H_
#define TENON_SPAWN_LEASH_H_

#include "absl/status/status.h"

namespace tenon::spawn {

// From now on, whoever is in the process group that this process leads is
// killed when this process ends. A process that this one forks lets go of the
// leash by itself (pthread_atfork()), and exec does so. Takes two descriptors
// for good. Does nothing in a process that leads no group.
// Errors: kResourceExhausted at a limit of descriptors.
absl::Status LeashOwnGroup();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_LEASH_H_
