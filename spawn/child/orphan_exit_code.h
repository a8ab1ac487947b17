// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef TENON_SPAWN_CHILD_ORPHAN_EXIT_CODE_H_
#define TENON_SPAWN_CHILD_ORPHAN_EXIT_CODE_H_

namespace tenon::spawn {

// The exit code of a child whose parent or supervisor died before the child had
// received its messages.
inline constexpr int kOrphanExitCode = 121;

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_ORPHAN_EXIT_CODE_H_
