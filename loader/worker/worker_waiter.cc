// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/worker_waiter.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::loader {
absl::StatusOr<WorkerWaiter> WorkerWaiter::Create(
    const Cancellation& cancellation) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return PosixError(errno, "epoll_create1", "loader");
  WorkerWaiter waiter(std::move(epoll));
  TENON_RETURN_IF_ERROR(waiter.Add(cancellation.fd(), kWakeOnly));
  return waiter;
}

absl::Status WorkerWaiter::Add(int fd, uint64_t what) {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = what}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return PosixError(errno, "epoll_ctl", "loader");
  }
  return absl::OkStatus();
}

void WorkerWaiter::Remove(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

absl::StatusOr<std::optional<WorkerWaiter::Failed>> WorkerWaiter::Sleep(
    absl::Span<const Awaited> awaited, Deadline deadline) {
  polled_.assign(1, {.fd = epoll_.get(), .events = POLLIN, .revents = 0});
  absl::StatusOr<int> woken = 1;
  absl::StatusOr<bool> may_sleep = true;
  for (const auto& [worker, link] : awaited) {
    TENON_ASSIGN_OR_RETURN(const int bell, link->PollFd());
    polled_.push_back({.fd = bell, .events = POLLIN, .revents = 0});
    may_sleep = link->Arm();
    if (!may_sleep.ok() || !*may_sleep) break;
  }
  if (may_sleep.ok() && *may_sleep) {
    woken = PollUntil(polled_, deadline);
  }
  awaited = awaited.first(polled_.size() - 1);
  for (const auto& [worker, link] : awaited) link->Disarm();
  if (!may_sleep.ok()) {
    return Failed{awaited.back().worker, may_sleep.status()};
  }
  TENON_RETURN_IF_ERROR(woken.status());
  if (*woken == 0) return absl::DeadlineExceededError("no worker is ready");
  for (size_t i = 0; i < awaited.size(); ++i) {
    const auto& [worker, link] = awaited[i];
    if (polled_[i + 1].revents == 0 || link->HasFinished()) continue;
    absl::Status alive = link->CheckAlive();
    if (!alive.ok()) return Failed{worker, std::move(alive)};
  }
  return polled_[0].revents == 0 ? std::nullopt : NextEnded();
}

std::optional<WorkerWaiter::Failed> WorkerWaiter::NextEnded() {
  epoll_event events[16];
  const int count = epoll_wait(epoll_.get(), events, 16, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t what = events[i].data.u64;
    if (what < kEnds) continue;
    return Failed{what - kEnds, absl::UnavailableError("it has ended")};
  }
  return std::nullopt;
}

}  // namespace tenon::loader
