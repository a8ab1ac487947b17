// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Shared knowledge of a parent and its child before they can communicate: the
// child's arguments and descriptors are in supervisor_main.h.

#ifndef TENON_SPAWN_SUPERVISOR_PROGRAM_H_
#define TENON_SPAWN_SUPERVISOR_PROGRAM_H_

#include <string>

#include "absl/strings/string_view.h"
#include "tenon/spawn/supervisor/supervisor_main.h"  // IWYU pragma: export

namespace tenon::spawn {

// Stores argv[0]; called by Init(). Thread-compatible: once, before threads.
void RememberProgram(absl::string_view argv0);

// Whether RememberProgram() was called in this process (or, in a fork, in the
// process that it was forked from).
bool IsProgramRemembered();

// The stored argv[0]; empty if there is none. It becomes the children's
// argv[0].
const std::string& ProgramName();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SUPERVISOR_PROGRAM_H_
