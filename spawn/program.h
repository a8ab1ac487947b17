// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a parent and the child that it starts agree on before they can talk:
// how the child knows that it is one, and where its channel is.

#ifndef TENON_SPAWN_PROGRAM_H_
#define TENON_SPAWN_PROGRAM_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tenon::spawn {

// The only argument of a child.
inline constexpr char kChildFlag[] = "--tenon-spawned-child";

// The descriptor at which a child finds its end of the control channel.
inline constexpr int kControlFd = 3;
// And its leash (leash.h).
inline constexpr int kLeashFd = 4;

// Remembers argv[0]; done by Init(). Thread-compatible: once, before threads.
void RememberProgram(absl::string_view argv0);

// Whether RememberProgram() was called in this process (or, in a fork, in the
// process that it was forked from).
bool IsProgramRemembered();

// What was remembered; empty if nothing was. Children get it as their argv[0].
const std::string& ProgramName();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_PROGRAM_H_
