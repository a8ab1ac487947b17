// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/parent.h"

#include <poll.h>
#include <sys/types.h>

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/status_macros.h"
#include "tenon/spawn/elders.h"

namespace tenon::spawn {
namespace {

// What the kernel says of a pidfd: "Pid:\t4711".
pid_t PidOf(int pid_fd) {
  std::ifstream file(absl::StrCat("/proc/self/fdinfo/", pid_fd));
  for (std::string word; file >> word;) {
    pid_t pid = -1;
    if (word == "Pid:" && file >> pid) return pid;
  }
  return -1;
}

}  // namespace

std::optional<Parent> Parent::Get() {
  const std::vector<int> elders = Elders();
  if (elders.empty()) return std::nullopt;
  // The nearest comes first.
  static const pid_t pid = PidOf(elders[0]);
  return Parent(elders[0], pid);
}

bool Parent::IsAlive() const { return !WaitForEnd(Deadline::Passed()).ok(); }

absl::Status Parent::WaitForEnd(Deadline deadline) const {
  pollfd ended = {.fd = fd_, .events = POLLIN, .revents = 0};
  TENON_ASSIGN_OR_RETURN(const int count, PollUntil(&ended, 1, deadline));
  return count > 0 ? absl::OkStatus()
                   : absl::DeadlineExceededError("the parent has not ended");
}

}  // namespace tenon::spawn
