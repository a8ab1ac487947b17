// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Ancestors: the parent, the parent's parent, and so on, as far as they are
// Tenon's children. A child's supervisor watches them all: so a whole tree ends
// one grace period after its root, not one grace period later per level.

#ifndef TENON_SPAWN_SUPERVISOR_ANCESTORS_H_
#define TENON_SPAWN_SUPERVISOR_ANCESTORS_H_

#include <vector>

#include "tenon/shm/process/pid_fd.h"

namespace tenon::spawn {

// The ancestors of this process, the nearest first. Once per process, and
// before threads are started.
void SetAncestors(std::vector<PidFd> ancestors);

// Their pidfds, open as long as this process lives. Empty if none were set.
std::vector<int> Ancestors();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SUPERVISOR_ANCESTORS_H_
