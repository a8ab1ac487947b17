// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ActiveChildren: the living children of this process.
//
//   for (const ActiveChild& child : ActiveChildren()) {
//     std::cerr << child.entry << " " << child.index << ": " << child.pid;
//   }

#ifndef TENON_SPAWN_PROCESS_ACTIVE_CHILDREN_H_
#define TENON_SPAWN_PROCESS_ACTIVE_CHILDREN_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::spawn {

struct ActiveChild {
  pid_t pid = -1;
  int index = 0;
  std::string entry;
};

// The children that are owned by a Process, Processes or ProcessPool of this
// process and have not ended, in the order of their start. Reaps nothing; polls
// each child's pidfd: one system call per child. Children started by other
// means and the fork server are not included. Empty in a fork until it starts
// children itself. Thread-safe.
std::vector<ActiveChild> ActiveChildren();

// A child's entry in that list. Not for users.
// Ownership: leaves the list on destruction. The caller owns `end_fd`, which
//   outlives the entry.
// Threads: thread-compatible. Processes: inert in a fork.
class ActiveChildEntry {
 public:
  ActiveChildEntry(ActiveChild child, int end_fd);
  ~ActiveChildEntry();
  ActiveChildEntry(const ActiveChildEntry&) = delete;
  ActiveChildEntry& operator=(const ActiveChildEntry&) = delete;

 private:
  uint64_t number_ = 0;
  uint64_t fork_count_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_PROCESS_ACTIVE_CHILDREN_H_
