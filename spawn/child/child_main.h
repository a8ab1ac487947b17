// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The main functions of child processes.

#ifndef TENON_SPAWN_CHILD_CHILD_MAIN_H_
#define TENON_SPAWN_CHILD_CHILD_MAIN_H_

namespace tenon::spawn {

// With kControlFd: receives the parent's messages, runs the entry point,
// reports to the parent, and ends the process, by std::exit(): see init.h.
[[noreturn]] void RunChildMain();

// The same in a forked child. It ends by _exit(), after flushing stdout and
// stderr: the parent's exit handlers must not run in this process.
[[noreturn]] void RunForkedChildMain();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_CHILD_MAIN_H_
