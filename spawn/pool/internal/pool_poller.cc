// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/internal/pool_poller.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {
namespace {

constexpr uint64_t kWakeKey = 0;
constexpr size_t kEventsAtOnce = 64;

int MillisecondsUntil(Deadline deadline) {
  if (deadline.is_never()) return -1;
  const absl::Duration left = std::min(deadline.Remaining(), absl::Hours(24));
  // Rounded up: a thread that wakes too early finds nothing to do, and polls
  // again.
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

}  // namespace

PoolPoller::PoolPoller(UniqueFd epoll, UniqueFd wake)
    : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

absl::StatusOr<PoolPoller> PoolPoller::Create() {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return PosixError(errno, "epoll_create1", "pool");
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return PosixError(errno, "eventfd", "pool");
  PoolPoller poller(std::move(epoll), std::move(wake));
  TENON_RETURN_IF_ERROR(poller.Add(poller.wake_.get(), kWakeKey));
  return poller;
}

absl::Status PoolPoller::Add(int fd, uint64_t key) const {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = key}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) {
    return absl::OkStatus();
  }
  return PosixError(errno, "epoll_ctl", "pool");
}

void PoolPoller::Remove(int fd) const {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void PoolPoller::Pause(int fd) const {
  // The kernel always adds EPOLLHUP, but reports it only once.
  epoll_event event = {.events = EPOLLONESHOT, .data = {.u64 = kWakeKey}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void PoolPoller::Resume(int fd, uint64_t key) const {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = key}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void PoolPoller::Wake() const {
  const uint64_t one = 1;
  RetryOnEintr([&] { return write(wake_.get(), &one, sizeof(one)); });
}

std::vector<uint64_t> PoolPoller::Wait(Deadline deadline) const {
  std::array<epoll_event, kEventsAtOnce> events;
  const int count =
      epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                 MillisecondsUntil(deadline));
  std::vector<uint64_t> keys;
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[static_cast<size_t>(i)].data.u64;
    if (key != kWakeKey) {
      keys.push_back(key);
      continue;
    }
    uint64_t ignored = 0;
    RetryOnEintr([&] { return read(wake_.get(), &ignored, sizeof(ignored)); });
  }
  return keys;
}

}  // namespace tenon::spawn
