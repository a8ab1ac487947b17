// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_tasks.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {
namespace {

using A = StdAtomics;

constexpr auto kOrder = std::memory_order_seq_cst;

uint64_t Outstanding(const QueueParticipant& words) {
  return A::Load(words.begun, kOrder) - A::Load(words.lost, kOrder) -
         A::Load(words.done, kOrder);
}

}  // namespace

void QueueTasks::Begin(uint64_t count) {
  A::FetchAdd(own().begun, count, kOrder);
  TENON_CRASH_POINT("queue.begun");
}

void QueueTasks::Undo(uint64_t count) {
  A::FetchSub(own().begun, count, kOrder);
  // Another participant may have seen the task begun, and wait for its end.
  const TimedMutexLock lock(&done_.mutex());
  done_.RingAll();
}

absl::Status QueueTasks::Done(uint64_t count) {
  TENON_RETURN_IF_ERROR(context_.CheckUsable());
  const TimedMutexLock lock(&done_.mutex());
  // Only Took() changes it meanwhile, and adds to it.
  const uint64_t unfinished = unfinished_.load(std::memory_order_relaxed);
  if (count > unfinished) {
    return absl::FailedPreconditionError(absl::StrCat(
        "TaskDone(): ", context_.what, ": ", count, " tasks exceed the ",
        unfinished, " unfinished tasks of this participant"));
  }
  unfinished_.fetch_sub(count, std::memory_order_relaxed);
  A::FetchAdd(own().done, count, kOrder);
  TENON_CRASH_POINT("queue.task_done");
  done_.RingAll();
  return absl::OkStatus();
}

// First the rings, then the begun tasks, then whether items were put meanwhile:
// a taken task was begun before it was taken, and while the rings are empty and
// nothing is put no task can begin. An empty ring's `take` is the number of its
// tasks; its `head` may be behind (queue_protocol.h).
bool QueueTasks::IsQuiet() const {
  uint64_t before = 0, after = 0;
  if (!CountIfEmpty(&before)) return false;
  for (size_t slot = 0; slot < join_.used(); ++slot) {
    if (join_.Lives(slot) && Outstanding(context_.memory.at(slot)) != 0)
      return false;
  }
  return CountIfEmpty(&after) && before == after;
}

// False if a ring is not empty; else the number of tasks ever put.
bool QueueTasks::CountIfEmpty(uint64_t* put) const {
  for (size_t slot = 0; slot < join_.used(); ++slot) {
    QueueTaker<> taker = context_.memory.MakeTaker(slot);
    if (!taker.Refresh() || taker.has_item()) return false;
    *put += taker.position();
  }
  return true;
}

// While all rings are empty.
absl::Status QueueTasks::CheckAllDone() const {
  uint64_t put = 0, done = 0;
  for (size_t slot = 0; slot < context_.memory.geometry().participants;
       ++slot) {
    const QueueParticipant& words = context_.memory.at(slot);
    put += A::Load(words.take, kOrder);
    done += A::Load(words.done, kOrder);
  }
  if (done == put) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      "Join(): ", context_.what, ": ", put - done, " of ", put,
      " tasks were not done: they died with the processes that received them"));
}

absl::Status QueueTasks::Join(Deadline deadline) {
  TENON_RETURN_IF_ERROR(context_.CheckUsable());
  const TimedMutexLock lock(&join_.mutex(), deadline);
  if (!lock.held()) return context_.LockTimedOut("joining");
  const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(join_.mutex()) {
    return IsQuiet();
  };
  for (;;) {
    TENON_RETURN_IF_ERROR(join_.Sync());
    const std::string why = join_.WhyAlone();
    if (IsQuiet() && join_.IsInSync()) return CheckAllDone();
    if (!why.empty() && Outstanding(own()) == 0) {
      return absl::UnavailableError(
          absl::StrCat("Join(): ", context_.what, ": ", context_.size(),
                       " tasks are queued, and ", why));
    }
    TENON_ASSIGN_OR_RETURN(const bool go_on, join_.Wait(ready, deadline));
    if (!go_on) {
      return absl::DeadlineExceededError(absl::StrCat(
          "Join(): ", context_.what, ": tasks are unfinished at the deadline, ",
          context_.size(), " of them not begun"));
    }
  }
}

}  // namespace tenon
