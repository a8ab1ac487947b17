// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ProcessOptions: options for the start of a child. A value; see process.h.

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
  // The path of another program, which calls Init() and has the entry point;
  // built with the same version of Tenon. Empty: this program. With another one
  // this program need not have called Init(), unless it is a child itself: if
  // it were started by its own path, each would start the next one. Only with
  // kSpawn.
  std::string program;
  // Passed to the child: its number among its siblings.
  int index = 0;
  // The entry point's argument(). Any bytes, any length.
  std::string argument;
  // Descriptors for the child, in this order; closed in this process once the
  // child has received them.
  std::vector<UniqueFd> fds;
  // Whether the child ignores SIGINT, from its first instruction on. A terminal
  // sends Ctrl-C to parent and children alike; a child that its parent will
  // stop in an orderly way should not race it.
  bool ignore_interrupt = false;
  // How long the child may run after the death of its parent or of one of the
  // parent's ancestors; then it is killed. See init.h.
  absl::Duration orphan_grace = absl::Milliseconds(500);

  // Whether the destructor of the handle kills the child. If not, the
  // destructor waits for the child to end by itself. Either way the child does
  // not outlive its parent.
  bool kill_on_drop = true;
  // Whether the child leads a process group of its own.
  // If so: Ctrl-Z stops only the terminal's foreground group, so the child runs
  // on, and waits for the parent where it needs it. All processes in its group
  // are killed when it ends, however it ends; its descendants outside the
  // group, in any terminal session, are killed when the last of the children
  // that were started together ends. A terminal neither sends it Ctrl-C nor
  // lets it read; setsid() fails with EPERM, as for every leader of a group.
  // If not: its descendants may outlive it, and this process too, once all
  // children that were started together have ended: nothing watches them any
  // more.
  bool own_group = true;

  StartMethod method = StartMethod::kSpawn;
  // Allows kFork of a process with several threads. The child has only one of
  // them, and locks that the other threads held stay locked: malloc() may be
  // intact, all other state they used is not.
  bool fork_with_threads = false;

  // Settings that the child applies to itself before the entry point runs.
  ChildSettings settings;
  // Variables added to the environment; they replace variables of the same
  // name.
  std::vector<std::pair<std::string, std::string>> environment;

  // Whether the child inherits this process's stdin. If not, its stdin is
  // /dev/null: several processes that read from one terminal or pipe get a part
  // each, and the leader of a group is stopped forever (SIGTTIN) if it reads
  // from a terminal. The error of Join(deadline) names a stop.
  bool inherit_stdin = false;

  // Files to which the child's output is appended; empty: the child inherits
  // this process's stream. Both may be the same file. Created with mode 0600.
  // "{index}" in these and in settings.name is replaced by the child's index.
  std::string stdout_file;
  std::string stderr_file;
  // Whether output to those files is also copied to this process's streams, as
  // they were at the start; a closed one gets nothing. A full stream blocks the
  // child's writes, but not its end (process.h, lost_output_bytes()).
  bool tee = false;
  // Whether the last 4 KiB of the child's stderr are kept for the error that
  // Join() returns. Costs a pipe and a thread, like `tee`.
  bool keep_stderr_tail = false;
  // Whether a child that crashes (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT,
  // SIGTRAP, SIGSYS) records a stack trace for the error that Join() returns.
  // The child then handles these signals itself, and still dies of them.
  bool crash_stack = false;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SETTINGS_PROCESS_OPTIONS_H_
