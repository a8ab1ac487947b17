// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The exit of a child, as its supervisor reports it.

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/spawn/supervisor/supervisor.h"
#include "tenon/spawn/supervisor/supervisor_main.h"

namespace tenon::spawn {

absl::StatusOr<ChildExit> ChildExit::Adopt(UniqueFd fd) {
  struct stat about = {};
  if (fstat(fd.get(), &about) != 0 || !S_ISFIFO(about.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("child exit: descriptor ", fd.get(), " is not a pipe"));
  }
  return ChildExit(std::move(fd));
}

bool ChildExit::has_exited() const {
  return WaitForExit(Deadline::Passed()).ok();
}

absl::Status ChildExit::WaitForExit(Deadline deadline) const {
  pollfd end = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
  TENON_ASSIGN_OR_RETURN(const int count, PollUntil({&end, 1}, deadline));
  if (count > 0) return absl::OkStatus();
  return absl::DeadlineExceededError("the child has not ended");
}

absl::StatusOr<ExitStatus> ChildExit::TakeStatus(Deadline deadline) {
  TENON_RETURN_IF_ERROR(WaitForExit(deadline));
  SupervisorReport report = {};
  const ssize_t got =
      RetryOnEintr([&] { return read(fd_.get(), &report, sizeof(report)); });
  if (got != sizeof(report)) {
    return absl::UnavailableError("its supervisor was killed");
  }
  supervisor_lingers_ = report.lingers != 0;
  const int status = report.wait_status;
  return ExitStatus{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                    .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                    .peak_rss_bytes = int64_t{report.peak_rss_kib} * 1024};
}

}  // namespace tenon::spawn
