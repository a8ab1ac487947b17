// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/parent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/types.h>

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_identity.h"
#include "tenon/spawn/supervisor/ancestors.h"

namespace tenon::spawn {
namespace {

// The pid in this pid namespace; -1 if there is none, or it cannot be read.
pid_t PidHere(int pid_fd) {
  const absl::StatusOr<PidFd> process =
      PidFd::Adopt(UniqueFd(fcntl(pid_fd, F_DUPFD_CLOEXEC, 0)));
  const pid_t pid = process.ok() ? PidOf(*process).value_or(0) : 0;
  return pid > 0 ? pid : -1;
}

}  // namespace

std::optional<Parent> Parent::Get() {
  const std::vector<int> ancestors = Ancestors();
  if (ancestors.empty()) return std::nullopt;
  // The parent comes first.
  static const pid_t pid = PidHere(ancestors[0]);
  return Parent(ancestors[0], pid);
}

bool Parent::IsAlive() const { return !WaitForEnd(Deadline::Passed()).ok(); }

absl::Status Parent::WaitForEnd(Deadline deadline) const {
  pollfd ended = {.fd = fd_, .events = POLLIN, .revents = 0};
  TENON_ASSIGN_OR_RETURN(const int count, PollUntil(&ended, 1, deadline));
  return count > 0 ? absl::OkStatus()
                   : absl::DeadlineExceededError("the parent has not ended");
}

}  // namespace tenon::spawn
