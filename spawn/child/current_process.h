// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CurrentProcess: what this process is to the one that started it.
//
//   if (std::optional<CurrentProcess> self = CurrentProcess::Get()) {
//     prefix = absl::StrCat(self->entry, "/", self->index);
//   }
//
// For code that has neither the entry point's Child nor its index at hand: log
// sinks, names of files.

#ifndef TENON_SPAWN_CHILD_CURRENT_PROCESS_H_
#define TENON_SPAWN_CHILD_CURRENT_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>

namespace tenon::spawn {

// A value. Thread-safe.
struct CurrentProcess {
  // Empty in a process that was not started by Process::Start() and its like,
  // a fork of such a one among them.
  static std::optional<CurrentProcess> Get();

  std::string entry;      // ProcessOptions::entry.
  int index = 0;          // ProcessOptions::index.
  pid_t parent_pid = -1;  // As Parent::pid() (parent.h).
};

// For the child's half of a start, before anything of the user's runs.
void SetCurrentProcess(const std::string& entry, int index);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_CURRENT_PROCESS_H_
