// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/queue_arguments.h"

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/pipe.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/process/start.h"

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

TEST(QueueArgumentsTest, NullIsRefused) {
  const std::unique_ptr<TensorQueue> null;
  TENON_ASSERT_OK_AND_ASSIGN(auto jobs, Queue<int64_t>::Create());
  EXPECT_THAT(Start(1, "Work", {}, jobs, null),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tenon::spawn
