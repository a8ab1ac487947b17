// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RobustMutex: a pthread mutex in shared memory whose owner may be killed.
//
// The kernel keeps a list of the robust mutexes that each thread holds or is
// about to acquire, and marks them when the thread ends, at any instruction; so
// the death of an owner is known for certain. Owners are identified by their
// thread number, which is valid within one pid namespace only: check with
// CheckPidNamespace().
//
// When a thread ends, the kernel walks at most 2,048 entries of its list
// (ROBUST_LIST_LIMIT) and leaves the rest locked for ever. So each thread
// counts the robust mutexes that it holds, and one more is refused.

#ifndef TENON_IPC_SYNC_INTERNAL_ROBUST_MUTEX_H_
#define TENON_IPC_SYNC_INTERNAL_ROBUST_MUTEX_H_

#include <pthread.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Ownership: none; it is in a mapping, and must not be unmapped by a thread
//   that holds it.
// Threads, processes: any number, of one pid namespace. A thread holds at most
//   kMaxHeld at once. Robust mutexes of other classes are not counted, but take
//   part of the kernel's limit. A forked child holds none.
// Trust: between processes that trust each other. The C library keeps pointers
//   in it, so a process that writes to it can crash its users.
class RobustMutex {
 public:
  enum class Kind { kErrorCheck, kRecursive };

  // The kernel's ROBUST_LIST_LIMIT.
  static constexpr size_t kMaxHeld = 2048;

  // Once, before other processes see it. Errors: those of the C library.
  absl::Status Init(Kind kind);

  // Blocks until `deadline`. Returns 0; EOWNERDEAD: held, and the owner before
  // died with it; ETIMEDOUT; EDEADLK: this thread holds it already;
  // ENOTRECOVERABLE: one that was held after EOWNERDEAD was unlocked without
  // MakeConsistent(); ENOLCK: this thread holds kMaxHeld others; EAGAIN: too
  // deep.
  int Lock(Deadline deadline);
  // As Lock(), with EBUSY where it would have to wait.
  int TryLock();
  // For the owner of one with a dead predecessor.
  int MakeConsistent() { return pthread_mutex_consistent(&mutex_); }
  // Returns EPERM if this thread does not hold it.
  int Unlock();

  // The thread that holds it, or 0; a snapshot.
  pid_t Owner() const;
  // Whether the owner has died and no process has acquired it since; a
  // snapshot, but true stays true until a process acquires it.
  bool OwnerDied() const;
  // Whether it is free, and every Lock() from now on returns ENOTRECOVERABLE.
  bool IsUnrecoverable() const;

  // Number of mutexes that this thread holds; a recursive one counts once.
  static size_t CountHeld();
  // The error of `call` for ENOLCK.
  static absl::Status TooManyHeld(absl::string_view call);

 private:
  uint32_t LockWord() const;
  uint32_t Depth() const;
  int CheckMayLock() const;
  int Count(int error);

  pthread_mutex_t mutex_;
};

// A number for the pid namespace of this process. Errors: kFailedPrecondition
// without /proc.
absl::StatusOr<uint64_t> PidNamespace();

// Whether `creator`, the namespace of the process that made `what`, is this
// process's.
// Errors: kFailedPrecondition.
absl::Status CheckPidNamespace(uint64_t creator, absl::string_view what);

}  // namespace tenon

#endif  // TENON_IPC_SYNC_INTERNAL_ROBUST_MUTEX_H_
