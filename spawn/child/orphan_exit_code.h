// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// kOrphanExitCode: the exit code of a child that lost its parent too early.

#ifndef TENON_SPAWN_CHILD_ORPHAN_EXIT_CODE_H_
#define TENON_SPAWN_CHILD_ORPHAN_EXIT_CODE_H_

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::spawn {

// The exit code of a child whose parent or supervisor died before the child had
// received its messages.
inline constexpr int kOrphanExitCode = 121;

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_ORPHAN_EXIT_CODE_H_
