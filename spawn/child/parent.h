// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Parent: the process that started this one, as this one knows it.
//
//   if (std::optional<Parent> parent = Parent::Get()) {
//     // Poll parent->end_fd() beside your own descriptors.
//   }
//
// getppid() is never its number: the kernel's parent of a child is its
// supervisor (supervisor.h). So are the parent of PR_SET_PDEATHSIG, and whom
// PR_SET_PTRACER of getppid() would allow.

#ifndef TENON_SPAWN_CHILD_PARENT_H_
#define TENON_SPAWN_CHILD_PARENT_H_

#include <sys/types.h>

#include <optional>

#include "absl/status/status.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::spawn {

// A value: owns nothing, and may be copied. Thread-safe.
// Processes: a fork of a child has the child's parent still.
class Parent {
 public:
  // Empty in a process that was not started by Process::Start() and its like.
  static std::optional<Parent> Get();

  // Its number at the start; that may be another's once it has ended. -1 where
  // /proc does not say.
  pid_t pid() const { return pid_; }

  // For poll(): readable once it has ended. Open as long as this process lives.
  int end_fd() const { return fd_; }

  // Whether it has not ended. One that is stopped is alive.
  bool IsAlive() const;

  // Blocks until it has ended, or until `deadline`.
  // Errors: kDeadlineExceeded.
  absl::Status WaitForEnd(Deadline deadline) const;

 private:
  Parent(int fd, pid_t pid) : fd_(fd), pid_(pid) {}

  int fd_;
  pid_t pid_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_PARENT_H_
