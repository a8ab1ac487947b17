// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Init: the first line of main() in a program that starts processes.

#ifndef TENON_SPAWN_CHILD_INIT_H_
#define TENON_SPAWN_CHILD_INIT_H_

#include "tenon/spawn/child/orphan_exit_code.h"  // IWYU pragma: export

namespace tenon::spawn {

struct InitOptions {
  // Whether a supervisor (supervisor.h) is executed from memory: a program of 6
  // KiB as a file that no directory has. It is the quickest way; but security
  // tools may report it as an attack. Otherwise, and wherever the system
  // forbids it, this program is executed and becomes the supervisor before any
  // constructor of it or of its shared libraries runs.
  bool execute_from_memory = true;
};

// In an ordinary start of the program: remembers that it was called, and
// returns. In a child started by Process::Start(): runs the entry point,
// reports its status to the parent, and exits; it does not return.
//
// The child ends by std::exit(), with code 0 if the entry point returned OK and
// 1 if not: as if its main() had returned. So static destructors and atexit()
// handlers run, which is what flushes streams and what profilers and leak
// checkers rely on; threads that the entry point has left running are subject
// to them as they would be in main(). The report is sent before that; if the
// process then crashes after all, the parent's Join() says so.
//
// A child never outlives its parent for long: its supervisor (supervisor.h)
// waits for the pidfds of the parent and of those that the parent comes from,
// gives the child ProcessOptions::orphan_grace to end by itself (it sees its
// channels close), and then kills it. The parent's death is seen through a
// pidfd, not through getppid() or PR_SET_PDEATHSIG, which follows the thread
// that started the child and not the process.
//
// Call it before threads are started and before flags are parsed: a child's
// arguments are Tenon's own. A child has the pidfds of its parent and
// ancestors, and its end of the control channel (descriptor 3) open,
// close-on-exec, and /dev/null in place of standard streams that its parent had
// closed. It leads a process group, unless ProcessOptions::own_group says no,
// and what it has started is killed when it ends.
void Init(int argc, char** argv, const InitOptions& options = {});

// Whether Init() has been called in this process.
bool IsInitialized();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_INIT_H_
