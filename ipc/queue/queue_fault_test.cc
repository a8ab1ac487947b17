// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Each system call of making, sharing, opening, using and leaving a queue fails
// once, with each of its possible errors: no crash, no hang, nothing leaks, and
// the next try succeeds.

#include <errno.h>

#include <cstdint>
#include <initializer_list>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/fault_report.h"
#include "tenon/shm/testing/trace/syscall_failer.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

absl::Status Life() {
  TENON_ASSIGN_OR_RETURN(
      auto queue,
      Queue<uint64_t>::Create({.capacity = 4, .max_participants = 3}));
  TENON_ASSIGN_OR_RETURN(QueueHandle handle, queue.Share());
  TENON_ASSIGN_OR_RETURN(auto other, Queue<uint64_t>::Open(std::move(handle)));
  TENON_RETURN_IF_ERROR(queue.PollFd().status());
  TENON_RETURN_IF_ERROR(queue.Arm().status());
  const absl::Status put =
      other.Put(7, Deadline::After(absl::Milliseconds(50)));
  queue.Disarm();
  TENON_RETURN_IF_ERROR(put);
  // Whichever call has failed, the item is there.
  TENON_ASSIGN_OR_RETURN(const uint64_t got,
                         queue.Get(Deadline::After(absl::Milliseconds(50))));
  if (got != 7) return absl::InternalError("another item came");
  // Sleeps until the deadline.
  const absl::Status nothing =
      queue.Get(Deadline::After(absl::Milliseconds(1))).status();
  return absl::IsDeadlineExceeded(nothing) ? absl::OkStatus() : nothing;
}

TEST(QueueFaultTest, EachSystemCallFailsOnce) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  FaultScenario scenario;
  scenario.name = "queue";
  scenario.body = Life;
  const auto add = [&](const char* call, std::initializer_list<int> errors) {
    for (const int error : errors) {
      scenario.faults.push_back({.call = call, .error = error});
    }
  };
  add("memfd_create", {EMFILE, ENOMEM});
  add("fallocate", {EINTR, ENOSPC});
  add("mmap", {ENOMEM});
  add("socketpair", {EMFILE, ENOMEM});
  add("eventfd2", {EMFILE, ENOMEM});
  add("pidfd_open", {EMFILE, ENOMEM});
  add("fcntl", {EMFILE});
  add("epoll_create1", {EMFILE});
  add("epoll_ctl", {ENOMEM, ENOSPC});
  add("sendmsg", {EINTR, ENOMEM, ETOOMANYREFS});
  add("recvmsg", {EINTR, ENOMEM});
  add("ppoll", {EINTR, ENOMEM});
  add("getrandom", {EINTR});
  scenario.check = [](const SyscallFault& fault,
                      const absl::Status& outcome) -> absl::Status {
    if (absl::IsInternal(outcome)) return outcome;
    // A signal must never matter.
    return fault.error == EINTR ? outcome : absl::OkStatus();
  };
  TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                             FailSystemCalls(scenario));
  std::cout << report.ToString();
  EXPECT_TRUE(report.ok()) << report.ToString();
}

}  // namespace
}  // namespace tenon
