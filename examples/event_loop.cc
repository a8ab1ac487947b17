// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A queue in an epoll loop, beside a timer and the end of a process. The loop
// sleeps for all three.

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <iostream>

#include "absl/time/clock.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/arguments/queue_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/child/main.h"
#include "tenon/spawn/process/start.h"

using namespace tenon;  // NOLINT: a program of one file.

struct Message {
  int64_t number;
  int64_t sent_ns;
};

absl::Status Send(int /*index*/, Queue<Message> queue) {
  for (int64_t i = 0; i < 3; ++i) {
    absl::SleepFor(absl::Milliseconds(25));
    TENON_RETURN_IF_ERROR(
        queue.Put({i, absl::GetCurrentTimeNanos()}, Deadline::Never()));
  }
  return queue.Close();
}
TENON_SPAWN_FUNCTION(Send);

// Prints all queued messages. An error: the end of the queue, or a failure.
absl::Status PrintAll(Queue<Message>& queue) {
  for (;;) {
    const absl::StatusOr<Message> message = queue.Get(Deadline::Passed());
    if (absl::IsDeadlineExceeded(message.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(message.status());
    std::cout << "message " << message->number << " of 16 bytes, "
              << (absl::GetCurrentTimeNanos() - message->sent_ns) / 1000
              << " us after it was sent\n";
  }
}

absl::Status Run() {
  TENON_ASSIGN_OR_RETURN(auto queue, Queue<Message>::Create());
  TENON_ASSIGN_OR_RETURN(auto sender, spawn::Start(1, Send, {}, queue));
  const UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const itimerspec each = {{0, 10'000'000}, {0, 10'000'000}};  // 10 ms
  timerfd_settime(timer.get(), 0, &each, nullptr);
  TENON_ASSIGN_OR_RETURN(const int queue_fd, queue.PollFd());
  const UniqueFd loop(epoll_create1(EPOLL_CLOEXEC));
  const int end_fd = sender[0].end_fd();
  for (const int fd : {timer.get(), queue_fd, end_fd}) {
    epoll_event wanted = {.events = EPOLLIN, .data = {.fd = fd}};
    epoll_ctl(loop.get(), EPOLL_CTL_ADD, fd, &wanted);
  }
  uint64_t ticks = 0;
  bool ended = false;
  while (!ended) {
    TENON_ASSIGN_OR_RETURN(const bool empty, queue.Arm());  // Wake this loop.
    epoll_event event = {};
    epoll_wait(loop.get(), &event, 1, empty ? -1 : 0);
    queue.Disarm();
    ended = event.data.fd == end_fd;
    uint64_t more = 0;
    if (event.data.fd == timer.get() &&
        read(timer.get(), &more, sizeof(more)) == sizeof(more)) {
      ticks += more;
    }
    const absl::Status printed = PrintAll(queue);
    if (absl::IsOutOfRange(printed)) break;  // The end of the queue.
    TENON_RETURN_IF_ERROR(printed);
  }
  std::cout << "the end, after " << (ticks > 0 ? "ticks" : "no tick")
            << " of the timer\n";
  return sender.Join();
}

// The child is this program, too.
TENON_SPAWN_MAIN(Run);
