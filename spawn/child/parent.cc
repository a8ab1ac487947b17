// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/parent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
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

// The same, looked up once in each process: a child that is started by fork()
// has another parent than the process whose memory it inherits.
pid_t PidOfParent(int pid_fd) {
  static constinit std::atomic<uint64_t> known = 0;
  const auto self = static_cast<uint32_t>(getpid());
  uint64_t word = known.load(std::memory_order_relaxed);
  if (word >> 32 != self) {
    word = uint64_t{self} << 32 | static_cast<uint32_t>(PidHere(pid_fd));
    known.store(word, std::memory_order_relaxed);
  }
  return static_cast<pid_t>(static_cast<uint32_t>(word));
}

}  // namespace

std::optional<Parent> Parent::Get() {
  const std::vector<int> ancestors = Ancestors();
  if (ancestors.empty()) return std::nullopt;
  // The parent comes first.
  return Parent(ancestors[0], PidOfParent(ancestors[0]));
}

bool Parent::IsAlive() const { return !WaitForEnd(Deadline::Passed()).ok(); }

absl::Status Parent::WaitForEnd(Deadline deadline) const {
  pollfd ended = {.fd = fd_, .events = POLLIN, .revents = 0};
  TENON_ASSIGN_OR_RETURN(const int count, PollUntil({&ended, 1}, deadline));
  return count > 0 ? absl::OkStatus()
                   : absl::DeadlineExceededError("the parent has not ended");
}

}  // namespace tenon::spawn
