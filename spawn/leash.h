// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The leash: the kernel signals a process group when a process has ended.
//
// Descriptors can tell of events by a signal (O_ASYNC, F_SETSIG) to a process
// group (F_SETOWN). When a process ends, in whatever way, the kernel closes its
// descriptors, and the last closing of one end is an event at the other. So it
// needs nobody who is still alive to act, and no number of a group that could
// have come to mean another: the kernel holds the group itself.

#ifndef TENON_SPAWN_LEASH_H_
#define TENON_SPAWN_LEASH_H_

#include "absl/status/status.h"

namespace tenon::spawn {

// From now on, whoever is in the process group that this process leads is
// killed when this process ends. Both ends are this process's own, a pipe's,
// which is open for good. A process that this one forks lets go of it by itself
// (pthread_atfork()), and exec does. Does nothing in a process that leads no
// group. Errors: kResourceExhausted at a limit of descriptors.
//
// When a process ends, what it had open is let go last to first (since Linux
// 4.3), and pipe2() gives the reading end first: so that is still there when
// the writing end goes.
absl::Status LeashOwnGroup();

// From now on, this process and its group, if it leads one, are woken (SIGCONT)
// when the other end of `socket` is closed: one that is stopped when its parent
// dies can see that, and end.
absl::Status WakeOnHangup(int socket);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_LEASH_H_
