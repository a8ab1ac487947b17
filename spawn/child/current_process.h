// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CurrentProcess: entry point and index of this process.
//
//   if (std::optional<CurrentProcess> self = CurrentProcess::Get()) {
//     prefix = absl::StrCat(self->entry, "/", self->index);
//   }
//
// For code without access to the entry point's Child or index: log sinks, names
// of files.

#ifndef TENON_SPAWN_CHILD_CURRENT_PROCESS_H_
#define TENON_SPAWN_CHILD_CURRENT_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::spawn {

// A value. Thread-safe.
struct CurrentProcess {
  // Empty in a process that was not started as a child by this library, and in
  // a fork of a child.
  static std::optional<CurrentProcess> Get();

  std::string entry;      // ProcessOptions::entry.
  int index = 0;          // ProcessOptions::index.
  pid_t parent_pid = -1;  // As Parent::pid() (parent.h).
};

// For the child's half of a start, before any user code runs. Shows the role of
// this process (role.h).
void SetCurrentProcess(const std::string& entry, int index);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_CURRENT_PROCESS_H_
