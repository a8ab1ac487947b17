// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Parent: the process that started this one.
//
//   if (std::optional<Parent> parent = Parent::Get()) {
//     // Poll parent->end_fd() beside your own descriptors.
//   }
//
// getppid() does not return its pid: the kernel's parent of a child is its
// supervisor (supervisor.h). PR_SET_PDEATHSIG and PR_SET_PTRACER of getppid()
// refer to the supervisor, too.

#ifndef TENON_SPAWN_CHILD_PARENT_H_
#define TENON_SPAWN_CHILD_PARENT_H_

#include <sys/types.h>

#include <optional>

#include "absl/status/status.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::spawn {

// A value: owns nothing, and may be copied. Thread-safe.
// Processes: in a fork of a child, refers to the child's parent.
class Parent {
 public:
  // Empty in a process that was not started as a child by this library.
  static std::optional<Parent> Get();

  // The parent's pid at the start; may be reused once the parent has ended. -1
  // if /proc does not tell.
  pid_t pid() const { return pid_; }

  // For poll(): readable once the parent has ended. Open while this process
  // lives.
  int end_fd() const { return fd_; }

  // Whether the parent still runs. A stopped parent is alive.
  bool IsAlive() const;

  // Blocks until the parent has ended, or until `deadline`.
  // Errors: kDeadlineExceeded.
  absl::Status WaitForEnd(Deadline deadline) const;

 private:
  Parent(int fd, pid_t pid) : fd_(fd), pid_(pid) {}

  int fd_;
  pid_t pid_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_PARENT_H_
