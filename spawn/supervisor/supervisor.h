// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Starts child processes, under a supervisor: a small process between this one
// and its children, which ensures that none of their descendants is left.
//
//   this process --- supervisor -+- child --- what the child starts
//                                +- child
//
// The supervisor is the parent of children that are started together, and the
// subreaper of all their descendants, so that none can leave: a process that
// loses its parent there becomes the supervisor's child.
//
//   - A child ends, in whatever way: the supervisor kills what is left of its
//     process group, reaps the child and reports its exit (ChildExit).
//   - The last of them ends: before it reports that, the supervisor kills and
//     reaps all descendants of all of them, in whatever group or session. Then
//     it ends itself.
//   - This process ends, or an ancestor of it: the supervisor wakes the
//   children
//     (SIGCONT) if they are stopped, gives them their grace period, kills them,
//     and does as above.
//   - All end at once: the same, if the children lead groups.
//   - The supervisor itself is killed: the kernel kills the children and their
//     process groups (death_pipe.h).
//   - Supervisors below, which are known by their name, are not killed: they
//     watch the same deaths, and give their own children the grace that those
//     were started with. The supervisor above stays until they have ended, and
//     reaps them.
//
// Why it stands between: docs/decisions/009-a-guardian-for-those-started-
// together.md. How it is created, and why nothing else shares this process's
// memory: docs/decisions/012-supervisor-first.md.

#ifndef TENON_SPAWN_SUPERVISOR_SUPERVISOR_H_
#define TENON_SPAWN_SUPERVISOR_SUPERVISOR_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {

// How a child has ended, once it has. Owns a descriptor.
// Threads: thread-compatible. Processes: may be sent to another.
class ChildExit {
 public:
  // Errors: kInvalidArgument if `fd` is not the reading end of a pipe.
  static absl::StatusOr<ChildExit> Adopt(UniqueFd fd);

  // For poll(): readable once the child has ended and was reaped, or its
  // supervisor was killed. Still owned here.
  int fd() const { return fd_.get(); }

  // Whether fd() is readable. Does not block.
  bool has_exited() const;

  // Blocks until it is, or until `deadline`. Errors: kDeadlineExceeded.
  absl::Status WaitForExit(Deadline deadline) const;

  // The same, and returns how the child has ended: once.
  // Errors: kDeadlineExceeded; kUnavailable if its supervisor was killed.
  absl::StatusOr<ExitStatus> TakeStatus(Deadline deadline);

  // After TakeStatus(): whether the supervisor stays on for others below it.
  bool supervisor_lingers() const { return supervisor_lingers_; }

 private:
  explicit ChildExit(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  bool supervisor_lingers_ = false;
};

struct SupervisedChild {
  pid_t pid;
  // To signal it; it is reaped by its supervisor.
  PidFd pid_fd;
  ChildExit child_exit;
};

// A supervisor, which is this process's child. Destroying this reaps it, and
// blocks until it ends, 2 s at most: to be destroyed once all its children have
// ended. One that lingers or has been stopped is reaped when the next
// supervisor is created or destroyed. Does nothing in a fork of this process.
// Threads: thread-compatible; SetLingers() and Wake() are thread-safe.
class Supervisor {
 public:
  explicit Supervisor(PidFd process) : process_(std::move(process)) {}
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // For poll(): readable once it has ended.
  int end_fd() const { return process_.fd(); }

  // Errors: kDeadlineExceeded.
  absl::Status WaitForEnd(Deadline deadline) const;

  // Kills it, and so its children.
  void Dismiss();

  // If it has been stopped (SIGSTOP), it goes on.
  void Wake();

  // It has reported the last of its children, and stays for others below it.
  void SetLingers() { lingers_ = true; }

 private:
  PidFd process_;
  uint64_t fork_count_ = ForkCount();
  std::atomic<bool> lingers_ = false;
};

struct SupervisedChildren {
  // Shared by the handles of the children. Null if it has ended and was reaped
  // by another waiter.
  std::shared_ptr<Supervisor> supervisor;
  std::vector<SupervisedChild> children;
};

// The descriptors that a child gets; borrowed.
struct ChildFds {
  int control;  // As its kControlFd.
  // As its 0, 1 and 2; -1: as they are here.
  int standard_input = -1;
  int standard_output = -1;
  int standard_error = -1;
};

// The signals that this process ignores, without SIGCHLD: bit n - 1 is signal
// n.
uint64_t IgnoredSignals();

struct SupervisedStart {
  // Of each child; 1 to kMaxSupervised of them.
  absl::Span<const ChildFds> children;
  // Null: each child executes this program (/proc/self/exe) with the arguments
  // {ProgramName(), kChildFlag}. Otherwise it is a fork of this process that
  // calls this, which must not return.
  void (*run)() = nullptr;
  // What a fork is to ignore, as IgnoredSignals() has it; a program that is
  // executed ignores what this process does.
  uint64_t ignored_signals = 0;
  // Whether SIGINT is blocked: the child can then choose to ignore it before it
  // can be hit by it.
  bool hold_interrupt = false;
  // Pidfds, borrowed; at most kMaxSupervisorAncestors. When one of these
  // processes ends, the children are orphans.
  std::vector<int> ancestors = {};
  // How long orphans may go on; may be infinite.
  absl::Duration orphan_grace = absl::ZeroDuration();
  // Whether each child leads a process group. What children that do not have
  // started may outlive them, and once all of them have ended this process,
  // too.
  bool own_group = true;
  // Added to the environment, or in place of what is there of that name.
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// Reaps supervisors that lingered, and have ended. The next start, and the end
// of the next supervisor, do it anyhow. Thread-safe; does not block.
void ReapLingeringSupervisors();

// Starts the children, in order, under one supervisor; returns once all have
// begun. Each inherits the environment, the working directory, limits, control
// group, credentials and namespaces, descriptors 0, 1, 2, what its ChildFds
// says, and its kDeathPipeFd; no other descriptor, close-on-exec or not.
// Signals that are ignored here stay ignored, except SIGCHLD; all others have
// their default action, and none is blocked, except as `start` says. Before a
// fork, what is not flushed of stdout and stderr is flushed, so that it comes
// out once. Blocks for 10 seconds at most, while this user has too many
// descriptors in flight. Thread-safe. Errors, of which none leaves anything
// behind: kResourceExhausted at a limit of processes, descriptors or memory,
// naming it; kUnavailable if the supervisor was killed; otherwise what the
// failed system call says.
absl::StatusOr<SupervisedChildren> StartSupervised(
    const SupervisedStart& start);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SUPERVISOR_SUPERVISOR_H_
