// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/process/pid_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// The interval of polling for an exit that a tracer delays.
constexpr absl::Duration kTracerPause = absl::Milliseconds(1);

constexpr int kPeerPidFd = 77;                       // SO_PEERPIDFD
constexpr auto kByPidFd = static_cast<idtype_t>(3);  // P_PIDFD

// glibc has wrappers for these only since 2.36, and older ones are in use.
int PidFdOpen(pid_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}
int PidFdSendSignal(int fd, int signal) {
  return static_cast<int>(
      syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0));
}

// waitid() with the kernel's fifth argument, which returns the usage.
int WaitId(int pid_fd, siginfo_t* info, rusage* usage) {
  return static_cast<int>(
      syscall(SYS_waitid, kByPidFd, pid_fd, info, WEXITED | WNOHANG, usage));
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  if (name != nullptr) return absl::StrCat("SIG", name);
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) {
    return absl::StrCat("SIGRTMIN+", signal - SIGRTMIN);
  }
  return "unknown";
}

}  // namespace

std::string ExitStatus::ToString() const {
  if (signal == 0) return absl::StrCat("exited with code ", exit_code);
  return absl::StrCat("was killed by signal ", signal, " (", SignalName(signal),
                      ")");
}

absl::StatusOr<PidFd> PidFd::Open(pid_t pid) {
  // pidfd_open() sets close-on-exec by itself.
  UniqueFd fd(PidFdOpen(pid));
  if (!fd.valid()) {
    const int error = errno;
    return PosixError(error, "pidfd_open", absl::StrCat("pid ", pid));
  }
  return PidFd(std::move(fd));
}

absl::StatusOr<PidFd> PidFd::OfPeer(int socket) {
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (getsockopt(socket, SOL_SOCKET, kPeerPidFd, &fd, &size) == 0) {
    return PidFd(UniqueFd(fd));
  }
  const int error = errno;
  constexpr char kWhat[] = "the peer of a socket";
  switch (error) {
    case ENOPROTOOPT:
    case EOPNOTSUPP:
      return absl::UnimplementedError(
          "getsockopt(SO_PEERPIDFD): not supported before Linux 6.5");
    case ENODATA:
      return absl::InvalidArgumentError("the socket has no peer");
    case ESRCH:
    case EINVAL:
      return absl::NotFoundError("the peer of the socket has ended");
    default:
      return PosixError(error, "getsockopt(SO_PEERPIDFD)", kWhat);
  }
}

absl::Status PidFd::Check(int fd) {
  // Neither reaps nor waits.
  siginfo_t info = {};
  if (waitid(kByPidFd, static_cast<id_t>(fd), &info,
             WEXITED | WNOHANG | WNOWAIT) == 0 ||
      errno == ECHILD) {
    return absl::OkStatus();
  }
  const int error = errno;
  if (error != EBADF && error != EINVAL) {
    return PosixError(error, "waitid(P_PIDFD)", "a received descriptor");
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "file descriptor ", fd, " is not a pidfd but ", DescribeFd(fd)));
}

absl::StatusOr<PidFd> PidFd::Adopt(UniqueFd fd) {
  absl::Status checked = Check(fd.get());
  if (!checked.ok()) {
    CloseReceived(std::move(fd));
    return checked;
  }
  if (fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) {
    return PosixError(errno, "fcntl(F_SETFD)", "pidfd");
  }
  return PidFd(std::move(fd));
}

absl::Status PidFd::WaitForEnd(Deadline deadline) const {
  // poll() ignores a negative descriptor and would never return.
  TENON_CHECK(fd_.valid(), "PidFd used after it was moved from");
  pollfd poll_fd = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
  TENON_ASSIGN_OR_RETURN(const int ready, PollUntil({&poll_fd, 1}, deadline));
  if (ready == 0) {
    return absl::DeadlineExceededError("the process has not ended yet");
  }
  if ((poll_fd.revents & POLLIN) == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "pidfd ", fd_.get(), " was closed by code that does not own it"));
  }
  return absl::OkStatus();
}

bool PidFd::HasEnded() const { return WaitForEnd(Deadline::Passed()).ok(); }

absl::Status PidFd::SendSignal(int signal) const {
  if (PidFdSendSignal(fd_.get(), signal) != 0) {
    const int error = errno;
    return PosixError(error, "pidfd_send_signal",
                      absl::StrCat("signal ", signal));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitStatus> PidFd::Reap(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(WaitForEnd(deadline));
  for (;;) {
    // Never without WNOHANG: a tracer (a debugger) hides the exit of a process
    // until it has seen it, and another thread may reap the process first.
    siginfo_t info = {};
    rusage usage = {};
    if (WaitId(fd_.get(), &info, &usage) != 0) {
      if (errno != ECHILD) return PosixError(errno, "waitid", "pidfd");
      return absl::FailedPreconditionError(
          "waitid(pidfd): the process is not a child of this one, or its exit "
          "status has been taken already (by another waiter, or because "
          "SIGCHLD is ignored)");
    }
    if (info.si_pid != 0) {
      const bool exited = info.si_code == CLD_EXITED;
      return ExitStatus{.exit_code = exited ? info.si_status : 0,
                        .signal = exited ? 0 : info.si_status,
                        .peak_rss_bytes = int64_t{usage.ru_maxrss} * 1024};
    }
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(
          "the process has ended, but its tracer has not released it");
    }
    TENON_RETURN_IF_ERROR(
        PollUntil({}, Earlier(deadline, Deadline::After(kTracerPause)))
            .status());
  }
}

}  // namespace tenon
