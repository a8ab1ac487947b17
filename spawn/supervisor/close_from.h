// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef TENON_SPAWN_SUPERVISOR_CLOSE_FROM_H_
#define TENON_SPAWN_SUPERVISOR_CLOSE_FROM_H_

namespace tenon::spawn {

// Closes all descriptors of this process from `first` on, also where the kernel
// has no close_range() (before Linux 5.9, or forbidden): then by /proc.
// Returns an errno. May be called between vfork() or fork() and exec.
int CloseFrom(int first);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SUPERVISOR_CLOSE_FROM_H_
