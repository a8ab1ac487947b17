// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PidFd: a process, identified by a descriptor that never refers to another
// one.
//
//   TENON_ASSIGN_OR_RETURN(PidFd child, PidFd::Open(pid));
//   TENON_RETURN_IF_ERROR(child.SendSignal(SIGTERM));
//   TENON_ASSIGN_OR_RETURN(ExitStatus how, child.Reap(deadline));
//
// A pid number is reused as soon as its process is reaped; a pidfd never is. It
// joins any poll, epoll or asio loop: readable means "has ended".

#ifndef TENON_SHM_PROCESS_PID_FD_H_
#define TENON_SHM_PROCESS_PID_FD_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// How a process ended.
struct ExitStatus {
  int exit_code = 0;  // Of exit(); 0 if a signal ended it.
  int signal = 0;     // The signal that ended it; 0 if it exited.
  // Peak resident memory, as getrusage(2) counts: exec keeps the peak, so it is
  // never less than the parent's at the start of the process. 0 if it was not
  // queried.
  int64_t peak_rss_bytes = 0;

  bool success() const { return exit_code == 0 && signal == 0; }
  // "exited with code 3", "was killed by signal 9 (SIGKILL)".
  std::string ToString() const;
};

// Ownership: owns the pidfd (close-on-exec). Closing it does nothing to the
//   process, and does not reap it.
// Threads: thread-compatible; const calls may run concurrently.
// Processes: a forked child may signal and wait, but only the parent of the
//   process can reap it.
// Failure: no call changes this object; each may be repeated. A moved-from
//   PidFd may only be destroyed or assigned to.
class PidFd {
 public:
  // Opens the process that has `pid` now. Only for an unreaped child of the
  // caller, or for the caller itself, is the number certain to refer to the
  // intended process.
  // Errors: kNotFound if there is no such process (ESRCH), kInvalidArgument if
  // `pid` is not positive, kResourceExhausted at a limit of descriptors,
  // kUnimplemented if a seccomp filter blocks the call.
  static absl::StatusOr<PidFd> Open(pid_t pid);

  // The process at the other end of a connected AF_UNIX socket: of a pair of
  // sockets, the one that made the pair.
  // Errors: kNotFound if it has ended and was reaped; kUnimplemented before
  // Linux 6.5; kInvalidArgument if the socket has no peer.
  static absl::StatusOr<PidFd> OfPeer(int socket);

  // Errors: kInvalidArgument, naming the type of `fd`, if it is not a pidfd.
  static absl::Status Check(int fd);

  // Takes over a descriptor received from elsewhere, and makes it
  // close-on-exec. Errors: kInvalidArgument if `fd` is not a pidfd.
  static absl::StatusOr<PidFd> Adopt(UniqueFd fd);

  PidFd(PidFd&&) = default;
  PidFd& operator=(PidFd&&) = default;

  // For poll(): readable once the process has ended. Still owned here.
  int fd() const { return fd_.get(); }

  // Waits until the process has ended or `deadline` passes, without reaping.
  // Blocks. Errors: kDeadlineExceeded; kFailedPrecondition if another thread
  // has closed the descriptor.
  absl::Status WaitForEnd(Deadline deadline) const;

  // Whether the process has ended. Does not block.
  bool HasEnded() const;

  // Sends a signal; 0 only checks. Does not block.
  // Errors: kNotFound if the process has ended and was reaped,
  // kPermissionDenied if it is another user's, kInvalidArgument if there is no
  // such signal.
  absl::Status SendSignal(int signal) const;

  // Waits for a child of the calling process to end, takes its exit status and
  // thereby removes its zombie. Blocks until `deadline`.
  // Errors: kDeadlineExceeded, also if a tracer delays the exit;
  // kFailedPrecondition if it is not a child of this process, or if its status
  // has been taken already (by another waiter, or because SIGCHLD is ignored).
  absl::StatusOr<ExitStatus> Reap(Deadline deadline) const;

 private:
  explicit PidFd(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace tenon

#endif  // TENON_SHM_PROCESS_PID_FD_H_
