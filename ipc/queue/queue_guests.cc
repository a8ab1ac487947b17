// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/queue_guests.h"

#include <poll.h>
#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

bool IsReadable(int fd) {
  pollfd file = {.fd = fd, .events = POLLIN, .revents = 0};
  return RetryOnEintr([&] { return poll(&file, 1, 0); }) > 0;
}

}  // namespace

void QueueGuests::Add(pid_t pid, int end_fd) {
  const ThreadLock lock(&mutex_);
  ForgetEnded();
  auto end = DuplicateFd(end_fd, "guest of a queue");
  if (end.ok()) living_.push_back({pid, *std::move(end)});
}

void QueueGuests::ForgetEnded() {
  std::vector<Guest> living;
  for (Guest& guest : living_) {
    if (IsReadable(guest.end.get())) {
      last_ended_ = guest.pid;
      ++ended_;
    } else {
      living.push_back(std::move(guest));
    }
  }
  living_ = std::move(living);
}

std::string QueueGuests::DescribeEnd() {
  const ThreadLock lock(&mutex_);
  ForgetEnded();
  if (!living_.empty() || ended_ == 0) return "";
  if (ended_ == 1) {
    return absl::StrCat("process ", last_ended_,
                        " ended before it opened the queue");
  }
  return absl::StrCat(ended_, " processes ended before they opened the queue, ",
                      "process ", last_ended_, " last");
}

void QueueGuests::Clear() {
  const ThreadLock lock(&mutex_);
  living_.clear();
}

}  // namespace tenon
