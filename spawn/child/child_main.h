// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a child does from its first line to its end.

#ifndef TENON_SPAWN_CHILD_CHILD_MAIN_H_
#define TENON_SPAWN_CHILD_CHILD_MAIN_H_

namespace tenon::spawn {

// With kControlFd: receives what the parent has sent, runs the entry point,
// reports to the parent, and ends the process, by std::exit(): see init.h.
[[noreturn]] void RunChildMain();

// The same in a forked child. It ends by _exit(), after flushing stdout and
// stderr: what the parent wanted done at its end is not this process's to do.
[[noreturn]] void RunForkedChildMain();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_CHILD_MAIN_H_
