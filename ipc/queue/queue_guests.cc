// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/queue_guests.h"

#include <poll.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/poll_all.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
void QueueGuests::Add(pid_t pid, int end_fd) {
  const ThreadLock lock(&mutex_);
  ForgetEnded();
  auto end = DuplicateFd(end_fd, "guest of a queue");
  if (!end.ok()) return;
  living_.push_back({pid, *std::move(end)});
  ++added_;
}

void QueueGuests::Announce() {
  const ThreadLock lock(&mutex_);
  ++announced_;
}

void QueueGuests::Withdraw() {
  const ThreadLock lock(&mutex_);
  --announced_;
}

void QueueGuests::ForgetEnded() {
  std::vector<pollfd> ends;
  for (const Guest& guest : living_) {
    ends.push_back({.fd = guest.end.get(), .events = POLLIN, .revents = 0});
  }
  if (PollAll(ends) == 0) return;
  std::vector<Guest> living;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].revents == 0) {
      living.push_back(std::move(living_[i]));
    } else {
      last_ended_ = living_[i].pid;
      ++ended_;
    }
  }
  living_ = std::move(living);
}

std::string QueueGuests::DescribeEnd() {
  const ThreadLock lock(&mutex_);
  ForgetEnded();
  if (!living_.empty() || announced_ > 0 || ended_ == 0) return "";
  if (ended_ == 1) {
    return absl::StrCat("process ", last_ended_,
                        " ended before it opened the queue");
  }
  return absl::StrCat(ended_, " processes ended before they opened the queue, ",
                      "process ", last_ended_, " last");
}

bool QueueGuests::MayCome(uint64_t joins) {
  const ThreadLock lock(&mutex_);
  ForgetEnded();
  return announced_ > 0 || (!living_.empty() && joins < added_);
}

void QueueGuests::Remove(pid_t pid) {
  const ThreadLock lock(&mutex_);
  std::erase_if(living_,
                [pid](const Guest& guest) { return guest.pid == pid; });
}

}  // namespace tenon
