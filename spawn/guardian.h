// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The guardian: a small process between this one and children of it, which sees
// to it that nobody is left behind.
//
//   this process --- guardian -+- child --- what the child starts
//                              +- child
//
// It is the parent of children that are started together, and the subreaper of
// all below them, so that none can leave: whoever loses his parent there
// becomes the guardian's.
//
//   - A child ends, in whatever way: the guardian kills what is left of its
//     process group, reaps the child and tells how it has ended (Fate).
//   - The last of them ends: before it tells that, the guardian kills and reaps
//     all descendants of all of them, in whatever group or session. Then it
//     ends itself.
//   - This process ends, or an elder of it: the guardian wakes the children
//     (SIGCONT) if they are stopped, gives them their grace, kills them, and
//     does as above.
//   - All end at once: the same, if the children lead groups.
//   - The guardian itself is killed: the kernel kills the children and their
//     process groups (leash.h).
//   - Guardians below are left alone, which are known by their name: they watch
//     the same deaths, and give their own children the grace that those were
//     started with.
//
// Why it stands between: limits, control groups, credentials, namespaces,
// directory and memory a child has of its parent because it is a copy of it, or
// a copy's. The guardian is one: it is made by vfork(), makes the children, and
// only then becomes a program of its own, of less than 5 KiB.
// docs/decisions/009-a-guardian-for-those-started-together.md.

#ifndef TENON_SPAWN_GUARDIAN_H_
#define TENON_SPAWN_GUARDIAN_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/fork_count.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/unique_fd.h"

namespace tenon::spawn {

struct GuardianOptions {
  // Pidfds, borrowed; at most kMaxGuardianElders. When one of these processes
  // ends, the children are orphans.
  std::vector<int> elders;
  // How long orphans may go on; may be infinite.
  absl::Duration orphan_grace;
  // Whether each child leads a process group. What children that do not have
  // started may outlive them, and once all of them have ended this process, too.
  bool own_group = true;
};

// How a child has ended, once it has. Owns a descriptor.
// Threads: thread-compatible. Processes: may be sent to another.
class Fate {
 public:
  // Errors: kInvalidArgument if `fd` is not the reading end of a pipe.
  static absl::StatusOr<Fate> Adopt(UniqueFd fd);

  // For poll(): readable once the child has ended and was reaped, or its
  // guardian was killed. Still owned here.
  int fd() const { return fd_.get(); }

  // Whether fd() is readable. Does not block.
  bool IsDecided() const;

  // Blocks until it is, or until `deadline`. Errors: kDeadlineExceeded.
  absl::Status WaitUntilDecided(Deadline deadline) const;

  // The same, and says how the child has ended: once.
  // Errors: kDeadlineExceeded; kUnavailable if its guardian was killed.
  absl::StatusOr<ExitStatus> Take(Deadline deadline);

 private:
  explicit Fate(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

struct GuardedChild {
  pid_t pid;
  // To signal it; it is reaped by its guardian.
  PidFd pid_fd;
  Fate fate;
};

// A guardian, which is this process's child. Destroying this reaps it, and
// blocks until it ends: to be destroyed once all its children have ended. Does
// nothing in a fork of this process.
// Threads: thread-compatible.
class Guardian {
 public:
  explicit Guardian(PidFd process) : process_(std::move(process)) {}
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  // For poll(): readable once it has ended.
  int end_fd() const { return process_.fd(); }

  // Kills it, and so its children.
  void Dismiss();

  // If somebody has stopped it, it goes on.
  void Wake();

 private:
  PidFd process_;
  uint64_t fork_count_ = ForkCount();
};

struct GuardedChildren {
  // Those who look after one of them each share it. None if it has ended, and
  // somebody else has reaped it.
  std::shared_ptr<Guardian> guardian;
  std::vector<GuardedChild> children;
};

// Makes a child, by fork() or posix_spawn(), and returns 0 with its pid in
// `*pid`, or an errno. Called in the guardian-to-be, for one child after the
// other. The child is to have `leash_fd`, which is above kLeashFd, as its
// kLeashFd (program.h). Until all have been made, the thread that called
// StartGuarded() is suspended and the guardian-to-be has its memory: this may
// use it as if it ran there, and returns in the guardian-to-be only. All
// signals are blocked, and have their default action, which the children
// inherit.
using MakeChild =
    absl::FunctionRef<int(size_t index, int leash_fd, pid_t* pid)>;
// What is to be said of such an errno.
using MakeChildError = absl::FunctionRef<absl::Status(int error)>;

// Makes `count` children, from 1 to kMaxGuarded, under a guardian. Returns once
// that is a program of its own. Blocks for 10 seconds at most, while this user
// has too many descriptors in flight. Thread-safe.
// Errors, of which none leaves anything behind: those of `error`;
// kResourceExhausted at a limit of processes, descriptors or memory;
// kUnavailable if the guardian was killed.
absl::StatusOr<GuardedChildren> StartGuarded(const GuardianOptions& options,
                                             size_t count, MakeChild make,
                                             MakeChildError error);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_GUARDIAN_H_
