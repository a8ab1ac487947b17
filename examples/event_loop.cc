// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A queue in an epoll loop, beside the loop's other descriptors.

#include <sys/epoll.h>
#include <unistd.h>

#include <cstdio>

#include "tenon/examples/queue_example.h"

namespace tenon {
namespace {

absl::Status Send(spawn::Child& child) {
  TENON_ASSIGN_OR_RETURN(const auto queue, OpenQueue(child, 0));
  for (int64_t i = 0; i < 3; ++i) {
    usleep(5000);
    TENON_RETURN_IF_ERROR(queue->Put(TensorMessage().Add(i), Soon()));
  }
  return queue->Close();
}
TENON_SPAWN_ENTRY("send", Send);

// Prints all queued messages; the end of the queue is kUnavailable.
absl::Status PrintAll(TensorQueue& queue) {
  for (;;) {
    const auto message = queue.Get(Deadline::Passed());
    if (absl::IsDeadlineExceeded(message.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(message.status());
    std::printf("got %ld\n", *message->integer(0));
  }
}

absl::Status Run() {
  TENON_ASSIGN_OR_RETURN(const auto queue, TensorQueue::Create());
  TENON_ASSIGN_OR_RETURN(auto child, StartWithQueues("send", {queue.get()}));
  TENON_ASSIGN_OR_RETURN(const int fd, queue->PollFd());
  const UniqueFd loop(epoll_create1(EPOLL_CLOEXEC));
  epoll_event wanted = {.events = EPOLLIN, .data = {}};
  epoll_ctl(loop.get(), EPOLL_CTL_ADD, fd, &wanted);
  for (absl::Status status; status.ok(); status = PrintAll(*queue)) {
    TENON_ASSIGN_OR_RETURN(const bool sleep, queue->Arm());
    if (sleep && epoll_wait(loop.get(), &wanted, 1, 10'000) == 0) {
      return absl::DeadlineExceededError("no message within the deadline");
    }
    queue->Disarm();
  }
  std::printf("the end\n");
  return child.Join(Soon());
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::RunExample(argc, argv, tenon::Run);
}
