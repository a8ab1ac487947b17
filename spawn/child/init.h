// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Init: the first line of main() in a program that starts processes.

#ifndef TENON_SPAWN_CHILD_INIT_H_
#define TENON_SPAWN_CHILD_INIT_H_

#include "tenon/spawn/child/orphan_exit_code.h"  // IWYU pragma: export

namespace tenon::spawn {

struct InitOptions {
  // Whether a supervisor (supervisor.h) is executed from memory: a program of 6
  // KiB in a file without a directory entry. This is the quickest way; but
  // security tools may report it as an attack. Otherwise, and wherever the
  // system forbids it, this program is executed and becomes the supervisor
  // before any constructor of it or of its shared libraries runs.
  bool execute_from_memory = true;
};

// In an ordinary start of the program: records the call and returns. In a child
// started by Process::Start(): runs the entry point, reports its status to the
// parent, and exits; it does not return.
//
// The child ends by std::exit(), with code 0 if the entry point returned OK and
// 1 if not: as if its main() had returned. So static destructors and atexit()
// handlers run, which streams, profilers and leak checkers rely on; threads
// that the entry point has left running are subject to them as they would be in
// main(). The report is sent before that; if the process crashes afterwards,
// the parent's Join() reports the crash.
//
// A child never outlives its parent for long: its supervisor (supervisor.h)
// waits for the pidfds of the parent and of the parent's ancestors, gives the
// child ProcessOptions::orphan_grace to end by itself (the child sees its
// channels close), and then kills it. The parent's death is detected by pidfd,
// not by getppid() or PR_SET_PDEATHSIG, which follows the thread that started
// the child and not the process.
//
// Call it before threads are started and before flags are parsed: a child's
// arguments are Tenon's own. A child has open, close-on-exec: the pidfds of its
// parent and ancestors, and its end of the control channel (descriptor 3); and
// /dev/null for each standard stream that its parent had closed. It leads a
// process group, unless ProcessOptions::own_group is false, and its descendants
// are killed when it ends.
void Init(int argc, char** argv, const InitOptions& options = {});

// Whether Init() has been called in this process.
bool IsInitialized();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_INIT_H_
