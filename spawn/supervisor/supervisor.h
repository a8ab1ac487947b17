// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Starts child processes under a supervisor: a small process between this
// process and its children, which ensures that no descendant of the children is
// left behind.
//
//   this process --- supervisor -+- child --- its descendants
//                                +- child
//
// The supervisor is the parent of the children that are started together, and
// the subreaper of all their descendants, so no descendant can escape: one that
// loses its parent becomes the supervisor's child.
//
//   - A child ends, however it ends: the supervisor kills the rest of its
//     process group, reaps the child and reports its exit (ChildExit).
//   - The last child ends: before it reports that, the supervisor kills and
//     reaps all descendants of all children, in any group or terminal session.
//     Then the supervisor exits.
//   - This process ends, or an ancestor of it: the supervisor wakes stopped
//     children (SIGCONT), gives them their grace period, kills them, and does
//     the same.
//   - All of them end at once: the same, if the children lead groups.
//   - The supervisor itself is killed: the kernel kills the children and their
//     process groups (death_pipe.h).
//   - Nested supervisors, which are recognised by their name, are not killed:
//     they watch the same deaths, and give their own children the grace period
//     that those were started with. The outer supervisor stays until they have
//     ended, and reaps them.
//   - Keepers (//shm/process:keeper) are spared: they become the children of the
//     supervisor above, or of init.
//
// Why there is a process in between: docs/decisions/009-a-guardian-for-those-
// started-together.md. How it is created, and why no other process shares this
// process's memory: docs/decisions/012-supervisor-first.md.

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
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon::spawn {

// The exit of a child. Owns a descriptor.
// Threads: thread-compatible. Processes: may be sent to another process.
class ChildExit {
 public:
  // Errors: kInvalidArgument if `fd` is not the reading end of a pipe.
  static absl::StatusOr<ChildExit> Adopt(UniqueFd fd);

  // For poll(): readable once the child has ended and was reaped, or its
  // supervisor was killed. Not owned by the caller.
  int fd() const { return fd_.get(); }

  // Whether fd() is readable. Does not block.
  bool has_exited() const;

  // Blocks until has_exited(), or until `deadline`. Errors: kDeadlineExceeded.
  absl::Status WaitForExit(Deadline deadline) const;

  // Waits like WaitForExit(), and returns the exit status: once.
  // Errors: kDeadlineExceeded; kUnavailable if the supervisor was killed.
  absl::StatusOr<ExitStatus> TakeStatus(Deadline deadline);

  // After TakeStatus(): whether the supervisor waits for nested supervisors.
  bool supervisor_lingers() const { return supervisor_lingers_; }

 private:
  explicit ChildExit(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
  bool supervisor_lingers_ = false;
};

struct SupervisedChild {
  pid_t pid;
  // For signals only: the supervisor reaps the child.
  PidFd pid_fd;
  ChildExit child_exit;
};

// A supervisor, which is this process's child. The destructor reaps it, and
// blocks until it ends, 2 s at most: destroy it once all its children have
// ended. A supervisor that lingers or is stopped is reaped when the next
// supervisor is created or destroyed. Does nothing in a fork of this process.
// Threads: thread-compatible; SetLingers() and Wake() are thread-safe.
class Supervisor {
 public:
  explicit Supervisor(PidFd process) : process_(std::move(process)) {}
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // For poll(): readable once the supervisor has ended.
  int end_fd() const { return process_.fd(); }

  // Errors: kDeadlineExceeded.
  absl::Status WaitForEnd(Deadline deadline) const;

  // Kills the supervisor, and thereby its children.
  void Dismiss();

  // Resumes a supervisor that has been stopped (SIGSTOP).
  void Wake();

  // The supervisor has reported its last child, and waits for nested ones.
  void SetLingers() { lingers_ = true; }

 private:
  PidFd process_;
  uint64_t fork_count_ = ForkCount();
  std::atomic<bool> lingers_ = false;
};

struct SupervisedChildren {
  // Shared by the handles of the children. Null if the supervisor has ended and
  // was reaped by another waiter.
  std::shared_ptr<Supervisor> supervisor;
  std::vector<SupervisedChild> children;
};

// The descriptors of a child; borrowed.
struct ChildFds {
  int control;  // Becomes its kControlFd.
  // Become its 0, 1 and 2; -1: inherited.
  int standard_input = -1;
  int standard_output = -1;
  int standard_error = -1;
};

// The signals that this process ignores, without SIGCHLD: bit n - 1 is signal
// n.
uint64_t IgnoredSignals();

struct SupervisedStart {
  // One element per child; 1 to kMaxSupervised of them.
  absl::Span<const ChildFds> children;
  // The path of the program that the children execute, which links
  // //spawn/child:init; empty: this program.
  std::string program = {};
  // Null: each child executes the program (/proc/self/exe if it is this one)
  // with the arguments {its name, kChildFlag}: the path, or this program's
  // ProgramName(). Otherwise each child is a fork of this process
  // that calls `run`, which must not return.
  void (*run)() = nullptr;
  // Signals that a fork ignores, in the format of IgnoredSignals(); a program
  // that is executed ignores the signals that this process ignores.
  uint64_t ignored_signals = 0;
  // Whether SIGINT is blocked at the start: the child can then ignore it before
  // one is delivered.
  bool hold_interrupt = false;
  // Pidfds, borrowed; at most kMaxSupervisorAncestors. When one of these
  // processes ends, the children are orphans.
  std::vector<int> ancestors = {};
  // How long orphans may run; may be infinite.
  absl::Duration orphan_grace = absl::ZeroDuration();
  // Whether each child leads a process group. If not, the children's
  // descendants may outlive them, and this process too, once all children have
  // ended.
  bool own_group = true;
  // Variables added to the environment; they replace variables of the same
  // name.
  std::vector<std::pair<std::string, std::string>> environment = {};
};

// Reaps supervisors that lingered and have ended. The next start, and the end
// of the next supervisor, do so as well. Thread-safe; does not block.
void ReapLingeringSupervisors();

// Starts the children, in order, under one supervisor; returns once all run.
// Each child inherits the environment, the working directory, limits, control
// group, credentials and namespaces, descriptors 0, 1, 2, its ChildFds, and its
// kDeathPipeFd; no other descriptor, whether or not it is close-on-exec.
// Signals that this process ignores stay ignored, except SIGCHLD; all others
// have their default action, and none is blocked, unless `start` specifies
// otherwise. Before a fork, stdout and stderr are flushed, so that buffered
// output appears once. Blocks for 10 seconds at most, while this user has too
// many descriptors in flight. Thread-safe.
// Errors, none of which leaves anything behind: kResourceExhausted at a limit
// of processes, descriptors or memory, naming it; kUnavailable if the
// supervisor was killed; otherwise the error of the failed system call.
absl::StatusOr<SupervisedChildren> StartSupervised(
    const SupervisedStart& start);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SUPERVISOR_SUPERVISOR_H_
