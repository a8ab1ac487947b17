// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/started_child.h"

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/spawn/supervisor/supervisor.h"

namespace tenon::spawn {

absl::Status SignalChild(const StartedChild& child, int signal) {
  absl::Status sent = child.pid_fd.SendSignal(signal);
  if (signal != SIGKILL) return sent;
  if (const auto supervisor = std::atomic_load(&child.supervisor))
    supervisor->Wake();
  return sent;
}

absl::StatusOr<ExitStatus> ReapChild(StartedChild& child, Deadline deadline) {
  absl::StatusOr<ExitStatus> end = child.child_exit.TakeStatus(deadline);
  if (absl::IsUnavailable(end.status())) {
    // The death pipe is about to kill it, unless the child has replaced the
    // pipe.
    child.pid_fd.SendSignal(SIGKILL).IgnoreError();
    TENON_RETURN_IF_ERROR(child.pid_fd.WaitForEnd(deadline));
    // Its supervisor has ended by then: its descriptors are closed before its
    // children are reparented.
    constexpr absl::Duration kEnds = absl::Seconds(2);
    const std::shared_ptr<Supervisor> supervisor =
        std::atomic_load(&child.supervisor);
    if (supervisor != nullptr) {
      supervisor->WaitForEnd(Earlier(deadline, Deadline::After(kEnds)))
          .IgnoreError();
    }
    // It has been reparented to this process if that is PID 1 or a subreaper.
    child.pid_fd.Reap(Deadline::Passed()).status().IgnoreError();
  }
  // The last of the children that were started together waits for their
  // supervisor.
  if (!absl::IsDeadlineExceeded(end.status())) {
    const std::shared_ptr<Supervisor> supervisor =
        std::atomic_exchange(&child.supervisor, {});
    if (supervisor != nullptr && child.child_exit.supervisor_lingers()) {
      supervisor->SetLingers();
    }
  }
  return end;
}

}  // namespace tenon::spawn
