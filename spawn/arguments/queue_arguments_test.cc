// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/queue_arguments.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/joinable_queue.h"
#include "tenon/ipc/queue/pipe.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/ipc_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/process/start.h"
#include "tenon/spawn/testing/odd_arguments_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Deadline Watchdog() { return Deadline::After(absl::Seconds(30)); }

// Takes jobs until there are no more, and reports its work with a tensor.
absl::Status Work(int index, Queue<int64_t> jobs,
                  std::unique_ptr<TensorQueue> results) {
  for (;;) {
    const auto job = jobs.Get(Watchdog());
    if (absl::IsOutOfRange(job.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(job.status());
    TENON_ASSIGN_OR_RETURN(
        const Tensor squares,
        results->CreateTensor(kDtypeOf<int64_t>, {4}, Watchdog()));
    TENON_RETURN_IF_ERROR(squares.Fill(*job * *job));
    TENON_RETURN_IF_ERROR(
        results->Put(TensorMessage(squares).Add(*job).Add(index), Watchdog()));
    TENON_RETURN_IF_ERROR(results->AwaitTaken(Watchdog()));
  }
}
TENON_SPAWN_FUNCTION(Work);

TEST(QueueArgumentsTest, WorkersTakeJobsAndGiveTensors) {
  TENON_ASSERT_OK_AND_ASSIGN(auto jobs, Queue<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto results, TensorQueue::Create());
  TENON_ASSERT_OK_AND_ASSIGN(Processes workers,
                             Start(2, "Work", {}, jobs, results));
  std::set<int64_t> done;
  for (int64_t job = 0; job < 20; ++job) {
    ASSERT_THAT(jobs.Put(job, Watchdog()), IsOk());
  }
  for (int i = 0; i < 20; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, results->Get(Watchdog()));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor squares, message.tensor(0));
    TENON_ASSERT_OK_AND_ASSIGN(const int64_t job, message.integer(1));
    const int64_t square = job * job;
    EXPECT_THAT(squares.data<const int64_t>().value(),
                ElementsAre(square, square, square, square));
    EXPECT_TRUE(done.insert(job).second);
  }
  ASSERT_THAT(jobs.Close(), IsOk());
  EXPECT_THAT(workers.Join(Watchdog()), IsOk());
}

absl::Status Echo(int, Pipe<int64_t> pipe) {
  for (;;) {
    const auto got = pipe.Receive(Watchdog());
    if (absl::IsUnavailable(got.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(got.status());
    TENON_RETURN_IF_ERROR(pipe.Send(*got + 1, Watchdog()));
  }
}
TENON_SPAWN_FUNCTION(Echo);

TEST(QueueArgumentsTest, APipeIsForOne) {
  TENON_ASSERT_OK_AND_ASSIGN(auto pipe, Pipe<int64_t>::Create());
  EXPECT_THAT(Start(2, "Echo", {}, pipe),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the other end of a Pipe")));
  {
    TENON_ASSERT_OK_AND_ASSIGN(Processes one, Start(1, "Echo", {}, pipe));
    ASSERT_THAT(pipe.Send(41, Watchdog()), IsOk());
    EXPECT_THAT(pipe.Receive(Watchdog()), IsOkAndHolds(42));
    pipe = Pipe<int64_t>::Create().value();  // This end is destroyed.
    EXPECT_THAT(one.Join(Watchdog()), IsOk());
  }
}

absl::Status NeverCalled(int, Deadly, Queue<int64_t>, JoinableQueue<int64_t>,
                         Pipe<int64_t>, std::unique_ptr<TensorQueue>) {
  return absl::OkStatus();
}
TENON_SPAWN_FUNCTION(NeverCalled);

// Calls that wait for a child that dies before it opens its queues end long
// before their deadline, and name it.
TEST(QueueArgumentsTest, AChildThatDiesBeforeItOpensItsQueues) {
  TENON_ASSERT_OK_AND_ASSIGN(auto items,
                             Queue<int64_t>::Create({.capacity = 1}));
  TENON_ASSERT_OK_AND_ASSIGN(auto tasks, JoinableQueue<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto pipe, Pipe<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto tensors, TensorQueue::Create());
  ASSERT_THAT(items.Put(1, Watchdog()), IsOk());
  ASSERT_THAT(tasks.Put(1, Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(
      Process child,
      StartProcess(NeverCalled, {}, Deadly(), items, tasks, pipe, tensors));
  const auto names_it =
      StatusIs(absl::StatusCode::kUnavailable,
               HasSubstr(absl::StrCat("process ", child.pid(),
                                      " ended before it opened the queue")));
  EXPECT_THAT(tensors->Get(Watchdog()), names_it);
  EXPECT_THAT(items.Put(2, Watchdog()), names_it);
  EXPECT_THAT(pipe.Receive(Watchdog()), names_it);
  EXPECT_THAT(tasks.Join(Watchdog()), names_it);
  EXPECT_THAT(child.Join(Watchdog()), StatusIs(absl::StatusCode::kAborted));
  // What is there can be received, and a later child can open the queues.
  EXPECT_THAT(items.Get(Watchdog()), IsOkAndHolds(1));
  TENON_ASSERT_OK_AND_ASSIGN(Process later,
                             StartProcess("Work", {}, items, tensors));
  ASSERT_THAT(items.Put(3, Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, tensors->Get(Watchdog()));
  EXPECT_THAT(message.integer(1), IsOkAndHolds(3));
  ASSERT_THAT(items.Close(), IsOk());
  EXPECT_THAT(later.Join(Watchdog()), IsOk());
}

absl::Status PutTwo(int, Queue<int64_t> items) {
  return items.Put(2, Watchdog());
}
TENON_SPAWN_FUNCTION(PutTwo);

absl::Status PutThreeLate(int, Slow, Queue<int64_t> items) {
  return items.Put(3, Watchdog());
}
TENON_SPAWN_FUNCTION(PutThreeLate);

absl::Status LeaveAndLive(int, Slow, Queue<int64_t> items, Event end) {
  {
    Queue<int64_t> left = std::move(items);
    TENON_RETURN_IF_ERROR(left.Put(4, Watchdog()));
  }
  return end.Wait(Watchdog());
}
TENON_SPAWN_FUNCTION(LeaveAndLive);

absl::Status LeaveInTurn(int, Queue<int64_t> items, Event gone, Event end) {
  {
    Queue<int64_t> left = std::move(items);
    TENON_RETURN_IF_ERROR(left.Put(5, Watchdog()));
  }
  TENON_RETURN_IF_ERROR(gone.Set());
  return end.Wait(Watchdog());
}
TENON_SPAWN_FUNCTION(LeaveInTurn);

auto IsAlone() {
  return StatusIs(absl::StatusCode::kUnavailable,
                  HasSubstr("all others have left or died"));
}

// As a parent has that starts several children, of which one puts and ends
// before the next one has opened the queue.
TEST(QueueArgumentsTest, AChildIsAwaitedUntilItOpensItsQueue) {
  TENON_ASSERT_OK_AND_ASSIGN(auto items, Queue<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(Process first, StartProcess("PutTwo", {}, items));
  EXPECT_THAT(items.Get(Watchdog()), IsOkAndHolds(2));
  EXPECT_THAT(first.Join(Watchdog()), IsOk());
  EXPECT_THAT(items.Get(Watchdog()), IsAlone());
  TENON_ASSERT_OK_AND_ASSIGN(Process late,
                             StartProcess("PutThreeLate", {}, Slow(), items));
  EXPECT_THAT(items.Get(Watchdog()), IsOkAndHolds(3));
  EXPECT_THAT(late.Join(Watchdog()), IsOk());
  EXPECT_THAT(items.Get(Watchdog()), IsAlone());
}

// But not one that has left its queue and lives on.
TEST(QueueArgumentsTest, AChildThatLeftItsQueueIsNotAwaited) {
  TENON_ASSERT_OK_AND_ASSIGN(auto items, Queue<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(Event end, Event::Create());
  TENON_ASSERT_OK_AND_ASSIGN(
      Process child, StartProcess("LeaveAndLive", {}, Slow(), items, end));
  EXPECT_THAT(items.Get(Watchdog()), IsOkAndHolds(4));
  EXPECT_THAT(items.Get(Watchdog()), IsAlone());
  ASSERT_THAT(end.Set(), IsOk());
  EXPECT_THAT(child.Join(Watchdog()), IsOk());
}

// Nor are two of which the second has had the slot of the first, whose pid no
// slot shows any more.
TEST(QueueArgumentsTest, ChildrenThatTookTurnsInASlotAreNotAwaited) {
  TENON_ASSERT_OK_AND_ASSIGN(auto items, Queue<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(Event end, Event::Create());
  std::vector<Process> children;
  for (int i = 0; i < 2; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Event gone, Event::Create());
    TENON_ASSERT_OK_AND_ASSIGN(
        Process child, StartProcess("LeaveInTurn", {}, items, gone, end));
    ASSERT_THAT(gone.Wait(Watchdog()), IsOk());
    children.push_back(std::move(child));
  }
  EXPECT_THAT(items.Get(Watchdog()), IsOkAndHolds(5));
  EXPECT_THAT(items.Get(Watchdog()), IsOkAndHolds(5));
  EXPECT_THAT(items.Get(Watchdog()), IsAlone());
  ASSERT_THAT(end.Set(), IsOk());
  for (Process& child : children) EXPECT_THAT(child.Join(Watchdog()), IsOk());
}

absl::Status NeverAdopted(int, Deadly, Channel) { return absl::OkStatus(); }
TENON_SPAWN_FUNCTION(NeverAdopted);

// A socket tells that its other end is gone, whether it was adopted or not.
TEST(QueueArgumentsTest, AChildThatDiesBeforeItAdoptsItsChannel) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
  TENON_ASSERT_OK_AND_ASSIGN(
      Process child,
      StartProcess(NeverAdopted, {}, Deadly(), std::move(ends.second)));
  EXPECT_THAT(ends.first.Receive(Watchdog()),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ends.first.Send("work", {}, Watchdog()),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(child.Join(Watchdog()), StatusIs(absl::StatusCode::kAborted));
}

// As long as one of several children lives, the parent waits for it.
TEST(QueueArgumentsTest, OneOfTwoChildrenDiesBeforeItOpensItsQueue) {
  TENON_ASSERT_OK_AND_ASSIGN(auto jobs, Queue<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto tasks, JoinableQueue<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto pipe, Pipe<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto results, TensorQueue::Create());
  TENON_ASSERT_OK_AND_ASSIGN(
      Process dies,
      StartProcess(NeverCalled, {}, Deadly(), jobs, tasks, pipe, results));
  TENON_ASSERT_OK_AND_ASSIGN(Process works,
                             StartProcess("Work", {}, jobs, results));
  EXPECT_FALSE(dies.Join(Watchdog()).ok());
  ASSERT_THAT(jobs.Put(7, Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, results->Get(Watchdog()));
  EXPECT_THAT(message.integer(1), IsOkAndHolds(7));
  ASSERT_THAT(jobs.Close(), IsOk());
  EXPECT_THAT(works.Join(Watchdog()), IsOk());
}

TEST(QueueArgumentsTest, NullIsRefused) {
  const std::unique_ptr<TensorQueue> null;
  TENON_ASSERT_OK_AND_ASSIGN(auto jobs, Queue<int64_t>::Create());
  EXPECT_THAT(Start(1, "Work", {}, jobs, null),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tenon::spawn
