// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Role: what a child process is for, shown to other processes in /proc.
//
// A child maps an empty memfd without access to it, whose label has its entry
// point, its index and its parent. So /proc/PID/maps tells them of any child,
// however it was started; that costs no descriptor and no memory, and ends with
// the process. A forked process does not have the mapping.

#ifndef TENON_SPAWN_CHILD_ROLE_H_
#define TENON_SPAWN_CHILD_ROLE_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tenon::spawn {

struct Role {
  std::string entry;
  int index = 0;
  pid_t parent_pid = -1;  // -1 if the child does not know it.
};

// Shows the role of this process from now on. Without memory or descriptors it
// shows none. Thread-compatible: once, before there are threads.
void ShowRole(const Role& role);

// The role in a line of /proc/PID/maps; empty in most. The text is another
// process's word: any bytes.
std::optional<Role> RoleInMapping(absl::string_view line);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_ROLE_H_
