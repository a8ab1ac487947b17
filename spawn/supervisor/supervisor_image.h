// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The supervisor's own program (supervisor_main.h), which is embedded in every
// program that starts processes.

#ifndef TENON_SPAWN_SUPERVISOR_SUPERVISOR_IMAGE_H_
#define TENON_SPAWN_SUPERVISOR_SUPERVISOR_IMAGE_H_

#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {

// The program in memory, to be executed: close-on-exec, read-only. -1 if
// execution from memory was switched off, or if the system forbids files in
// memory or their execution (vm.memfd_noexec = 2): then this program itself
// becomes the supervisor (supervisor_entry.cc). Thread-safe; does not block.
UniqueFd OpenSupervisorImage();

// See InitOptions (init.h). Thread-safe.
void SetExecuteFromMemory(bool allowed);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SUPERVISOR_SUPERVISOR_IMAGE_H_
