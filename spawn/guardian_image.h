// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The guardian's own program (guardian_main.h), which is in every program that
// starts processes.

#ifndef TENON_SPAWN_GUARDIAN_IMAGE_H_
#define TENON_SPAWN_GUARDIAN_IMAGE_H_

#include "tenon/shm/unique_fd.h"

namespace tenon::spawn {

// The program in memory, to be executed: close-on-exec, for reading. -1 where
// memory cannot be made into files or these not be executed
// (vm.memfd_noexec = 2): then this program itself can be the guardian.
// Thread-safe; does not block.
UniqueFd OpenGuardianImage();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_GUARDIAN_IMAGE_H_
