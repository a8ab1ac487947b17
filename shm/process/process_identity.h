// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Which process a pidfd refers to. A pid number alone never identifies a
// process: it is reused, and it differs between pid namespaces. /proc shows
// numbers of the pid namespace in which it was mounted, which need not be this
// process's (`unshare --pid --fork`, some containers).
//
//   TENON_ASSIGN_OR_RETURN(
//       PidFd peer, IdentifySender(sent, credentials.pid, vouched));
//
// Threads: thread-safe. No call blocks. Each opens descriptors for as long as
// it runs.

#ifndef TENON_SHM_PROCESS_PROCESS_IDENTITY_H_
#define TENON_SHM_PROCESS_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <optional>

#include "absl/status/statusor.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {

enum class SameProcess { kNo, kYes, kUnknown };

// Whether two pidfds refer to one process. Where pidfds have inodes of their
// own (pidfs, Linux 6.9) the inodes are compared; before that, the numbers that
// /proc shows, in its own pid namespace. kUnknown, before 6.9, without /proc,
// if /proc does not show both processes, and if either has been reaped.
// Errors: kResourceExhausted at a limit of descriptors.
absl::StatusOr<SameProcess> Compare(const PidFd& a, const PidFd& b);

// The process that sent `sent`, which must be its own pidfd. `pid` is the
// sender by the kernel's credentials, as recvmsg() translates it into this pid
// namespace; 0 if the sender has no number there. `vouched` is the sender by
// the kernel's own pidfd (SO_PEERPIDFD, SCM_PIDFD; Linux 6.5), if there is one.
// The result was opened by the kernel or by this process, not by the sender.
// Errors:
//   kInvalidArgument     `sent` refers to another process than the sender
//   kNotFound            the sender has ended and was reaped
//   kFailedPrecondition  the sender cannot be identified here: the reason, and
//                        what to change
//   kResourceExhausted   at a limit of descriptors
absl::StatusOr<PidFd> IdentifySender(const PidFd& sent, pid_t pid,
                                     std::optional<PidFd> vouched);

// The pid of `process` in the pid namespace of this process, whatever /proc is
// mounted. 0 if it has none there, has been reaped, or /proc does not show it.
// When the caller uses the number it may refer to another process.
// Errors: kResourceExhausted at a limit of descriptors.
absl::StatusOr<pid_t> PidOf(const PidFd& process);

// The number by which /proc shows `process`: for paths in /proc only. 0 as
// above. Errors: as above.
absl::StatusOr<pid_t> ProcPidOf(const PidFd& process);

}  // namespace tenon

#endif  // TENON_SHM_PROCESS_PROCESS_IDENTITY_H_
