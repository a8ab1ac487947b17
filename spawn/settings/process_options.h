// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ProcessOptions: how a child is started. A value; see process.h.

#ifndef TENON_SPAWN_SETTINGS_PROCESS_OPTIONS_H_
#define TENON_SPAWN_SETTINGS_PROCESS_OPTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/settings/child_settings.h"
#include "tenon/spawn/settings/start_method.h"  // IWYU pragma: export

namespace tenon::spawn {

struct ProcessOptions {
  // The name of a TENON_SPAWN_ENTRY.
  std::string entry;
  // Told to the child: which of its siblings it is.
  int index = 0;
  // What the entry point gets as argument(). Any bytes, any length.
  std::string argument;
  // Descriptors for the child, in this order; closed here once it has them.
  std::vector<UniqueFd> fds;
  // Whether the child ignores SIGINT, from before its first instruction on. A
  // terminal sends Ctrl-C to parent and children alike; a child that its parent
  // will stop in an orderly way should not race it.
  bool ignore_interrupt = false;
  // How long the child may go on to end by itself after its parent, or whoever
  // started that, has died, before it is ended. See init.h.
  absl::Duration orphan_grace = absl::Milliseconds(500);

  // Whether dropping the handle kills the child. If not, the destructor waits
  // for it to end by itself. Either way it does not outlive its parent.
  bool daemon = true;
  // Whether the child leads a process group of its own. A job that is stopped
  // (Ctrl-Z) is the terminal's foreground group: children with groups of their
  // own go on, and wait for the parent where they need it. Whatever it starts
  // then ends with it, however it ends; what has left the group, with the last
  // of the children that were started together, in whatever session it is. And
  // a terminal does not send it Ctrl-C, nor let it read; setsid() fails with
  // EPERM, as for every leader of a group. Without, what it starts
  // may outlive it, and this process too, once all the children that were
  // started with it have ended: then nobody watches any more.
  bool own_group = true;

  StartMethod method = StartMethod::kSpawn;
  // Allows kFork of a process with several threads. In the child there is only
  // one of them, and what the others had locked stays locked: malloc() may be
  // whole, whatever else they used is not.
  bool fork_with_threads = false;

  // What the child does to itself before the entry point runs.
  ChildSettings settings;
  // Added to the environment, or in place of what is there of that name.
  std::vector<std::pair<std::string, std::string>> environment;

  // Whether the child's stdin is this process's. If not, it is /dev/null:
  // several processes that read from one terminal or pipe get a part each, and
  // one that leads a group is stopped for ever (SIGTTIN) if it reads from a
  // terminal. Join(deadline) names a stop.
  bool inherit_stdin = false;

  // Files to which the child's output is appended; empty: where this process's
  // goes. Both may be the same. They are made with mode 0600.
  std::string stdout_file;
  std::string stderr_file;
  // Whether what goes to those files goes to this process's streams as well:
  // those that it has at the start. A full stream holds up the child, but not
  // its end (process.h, lost_output_bytes()).
  bool tee = false;
  // Whether the last 4 KiB of the child's stderr are kept for the error that
  // Join() returns. Costs a pipe and a thread, as `tee` does.
  bool keep_stderr_tail = false;
  // Whether a child that crashes (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT,
  // SIGTRAP, SIGSYS) says where, for the error that Join() returns. It handles
  // these signals itself then, and dies of them all the same.
  bool crash_stack = false;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SETTINGS_PROCESS_OPTIONS_H_
