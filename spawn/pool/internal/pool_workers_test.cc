// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/internal/pool_workers.h"

#include <poll.h>
#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/arguments/tensor_parcel.h"
#include "tenon/spawn/pool/internal/pool_poller.h"
#include "tenon/spawn/pool/internal/pool_protocol.h"
#include "tenon/spawn/pool/internal/pool_starter.h"
#include "tenon/spawn/pool/internal/pool_task.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Phase = PoolWorkers::Phase;
using Worker = PoolWorkers::Worker;

int Halve(int x) { return x / 2; }
TENON_POOL_FUNCTION(Halve);

// Keeps the status of each answer.
class Receiver final : public PoolReceiver {
 public:
  explicit Receiver(std::vector<absl::Status>* got) : got_(got) {}
  void Receive(absl::StatusOr<PackedArguments> answer) override {
    got_->push_back(answer.status());
  }

 private:
  std::vector<absl::Status>* got_;
};

// Workers without a pool: the test acts as its threads.
class PoolWorkersTest : public ChildTest {
 protected:
  void TearDown() override {
    workers_.reset();
    poller_.reset();
    ChildTest::TearDown();
  }

  void Make(PoolOptions options, size_t count) {
    ASSERT_THAT(CheckAndFillIn(options), IsOk());
    absl::StatusOr<PoolPoller> poller = PoolPoller::Create();
    ASSERT_THAT(poller, IsOk());
    poller_.emplace(*std::move(poller));
    workers_.emplace(options, *poller_);
    PoolStarter starter(std::move(options), *poller_);
    ASSERT_THAT(workers_->Add(starter.Start(count)), IsOk());
    EXPECT_EQ(starter.started(), count);
  }

  std::shared_ptr<PoolTask> MakeTask(uint64_t id, bool kill_on_cancel = false) {
    auto task = std::make_shared<PoolTask>();
    task->function = "Halve";
    task->calls.push_back(PackCall<int>(8).value());
    task->receivers.push_back(std::make_unique<Receiver>(&got_));
    task->id = id;
    task->kill_on_cancel = kill_on_cancel;
    return task;
  }

  // Acts as a thread that sends a task.
  std::shared_ptr<PoolTask> Send(PoolWorkers::Assignment assignment) {
    const auto batch = PackedBatch::Of(
        assignment.batch_id, assignment.task->function, assignment.task->calls);
    return workers_->Send(assignment, batch, done_);
  }

  void Await(Worker& worker) {
    pollfd fd = {.fd = worker.channel.fd(), .events = POLLIN, .revents = 0};
    ASSERT_THAT(PollUntil({&fd, 1}, Watchdog()), IsOkAndHolds(1));
  }

  absl::Status Accept(Worker& worker) {
    TENON_ASSIGN_OR_RETURN(Message message, worker.channel.Receive(Watchdog()));
    TENON_ASSIGN_OR_RETURN(PoolAnswers answers,
                           ReadAnswers(std::move(message), claimer_));
    return workers_->Accept(worker, std::move(answers), done_);
  }

  absl::StatusOr<std::shared_ptr<PoolTask>> Remove(Worker& worker) {
    const absl::Status how = worker.process.Join(Watchdog());
    return workers_->Remove(worker, how, done_);
  }

  Worker& worker(size_t i) { return *workers_->all()[i]; }

  // Answers to receivers since the last call.
  std::vector<absl::Status> Told() {
    std::move(done_).Run();
    done_ = {};
    return std::exchange(got_, {});
  }

  std::optional<PoolPoller> poller_;
  std::optional<PoolWorkers> workers_;
  PoolCompletions done_;
  std::vector<absl::Status> got_;
  TensorClaimer claimer_;
};

TEST_F(PoolWorkersTest, ATaskGoesToTheWorkerThatWasIdleLast) {
  Make({.workers = 2}, 2);
  EXPECT_EQ(workers_->CountLive(), 2u);
  EXPECT_EQ(workers_->CountIdle(), 2u);
  PoolWorkers::Assignment assignment = workers_->Reserve(MakeTask(1));
  EXPECT_EQ(worker(1).phase, Phase::kSending);
  EXPECT_EQ(workers_->CountBusy(), 1u);
  EXPECT_EQ(Send(std::move(assignment)), nullptr);
  EXPECT_EQ(worker(1).phase, Phase::kBusy);
  EXPECT_THAT(Accept(worker(1)), IsOk());
  EXPECT_EQ(worker(1).phase, Phase::kIdle);
  EXPECT_THAT(Told(), ElementsAre(IsOk()));
  EXPECT_EQ(workers_->CountIdle(), 2u);
}

TEST_F(PoolWorkersTest, ATaskThatFailsWhileItIsPackedIsNotSent) {
  Make({.workers = 1}, 1);
  PoolWorkers::Assignment assignment = workers_->Reserve(MakeTask(1));
  workers_->Cancel(2, done_);
  EXPECT_THAT(Told(), ElementsAre());
  workers_->Cancel(1, done_);
  EXPECT_THAT(Told(),
              ElementsAre(StatusIs(absl::StatusCode::kCancelled,
                                   HasSubstr("before it reached a worker"))));
  EXPECT_EQ(workers_->CountIdle(), 0u);  // The sending thread still has it.
  EXPECT_EQ(Send(std::move(assignment)), nullptr);
  EXPECT_EQ(workers_->CountIdle(), 1u);
  EXPECT_THAT(Told(), ElementsAre());
}

TEST_F(PoolWorkersTest, ATaskWhoseWorkerDiesWhileItIsPackedComesBack) {
  Make({.workers = 1}, 1);
  const std::shared_ptr<PoolTask> task = MakeTask(1);
  PoolWorkers::Assignment assignment = workers_->Reserve(task);
  ASSERT_THAT(worker(0).process.Kill(), IsOk());
  EXPECT_THAT(Remove(worker(0)), IsOkAndHolds(task));
  EXPECT_TRUE(workers_->empty());
  EXPECT_EQ(Send(std::move(assignment)), nullptr);
  EXPECT_THAT(Told(), ElementsAre());
  EXPECT_EQ(task->calls.size(), 1u);  // It can be sent to another.
}

// The thread that was sending it still reads its calls.
TEST_F(PoolWorkersTest, ATaskThatTwoThreadsPackIsKeptForBoth) {
  Make({.workers = 2}, 2);
  PoolWorkers::Assignment first = workers_->Reserve(MakeTask(1));
  const absl::Span<const PackedArguments> calls = first.task->calls;
  ASSERT_THAT(worker(1).process.Kill(), IsOk());
  absl::StatusOr<std::shared_ptr<PoolTask>> task = Remove(worker(1));
  ASSERT_THAT(task, IsOkAndHolds(first.task));
  EXPECT_EQ(Send(workers_->Reserve(*std::move(task))), nullptr);
  EXPECT_EQ(worker(0).phase, Phase::kBusy);
  EXPECT_EQ(first.task->calls.size(), 1u);
  EXPECT_THAT(Accept(worker(0)), IsOk());
  EXPECT_THAT(Told(), ElementsAre(IsOk()));
  const auto batch =
      PackedBatch::Of(first.batch_id, first.task->function, calls);
  EXPECT_THAT(batch, IsOk());
  EXPECT_EQ(workers_->Send(first, batch, done_), nullptr);
  EXPECT_EQ(first.sent.size(), 1u);  // Freed by the last packing thread.
  EXPECT_THAT(Told(), ElementsAre());
  EXPECT_EQ(workers_->CountIdle(), 1u);
}

TEST_F(PoolWorkersTest, ATaskThatADeadWorkerCannotGetComesBack) {
  Make({.workers = 1}, 1);
  const std::shared_ptr<PoolTask> task = MakeTask(1);
  ASSERT_THAT(worker(0).process.Kill(), IsOk());
  ASSERT_THAT(worker(0).process.Join(Watchdog()),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(Send(workers_->Reserve(task)), task);
  EXPECT_EQ(worker(0).phase, Phase::kEnding);
  EXPECT_THAT(Told(), ElementsAre());
}

TEST_F(PoolWorkersTest, ADeathFailsTheTask) {
  Make({.workers = 1}, 1);
  EXPECT_EQ(Send(workers_->Reserve(MakeTask(1))), nullptr);
  ASSERT_THAT(worker(0).process.Kill(), IsOk());
  EXPECT_THAT(Remove(worker(0)), IsOkAndHolds(nullptr));
  EXPECT_THAT(Told(), ElementsAre(StatusIs(absl::StatusCode::kAborted)));
}

TEST_F(PoolWorkersTest, OnlyTasksThatSaySoAreKilledForACancel) {
  Make({.workers = 2}, 2);
  EXPECT_EQ(Send(workers_->Reserve(MakeTask(1, true))), nullptr);
  EXPECT_EQ(Send(workers_->Reserve(MakeTask(2, false))), nullptr);
  workers_->Cancel(1, done_);
  workers_->Cancel(2, done_);
  EXPECT_EQ(worker(1).phase, Phase::kEnding);
  EXPECT_EQ(worker(0).phase, Phase::kBusy);
  EXPECT_THAT(Told(), ElementsAre(StatusIs(absl::StatusCode::kCancelled,
                                           HasSubstr("killed"))));
}

TEST_F(PoolWorkersTest, AnswersThatWereNotAskedForEndTheWorker) {
  Make({.workers = 1}, 1);
  PoolAnswers answers = {.id = 7, .rss_bytes = 0, .answers = {}};
  answers.answers.emplace_back();
  EXPECT_THAT(workers_->Accept(worker(0), std::move(answers), done_), IsOk());
  EXPECT_EQ(worker(0).phase, Phase::kEnding);
  EXPECT_EQ(workers_->CountLive(), 0u);
}

TEST_F(PoolWorkersTest, IdleWorkersAboveTheLeastNumberEnd) {
  Make({.workers = 2, .min_workers = 1, .idle_timeout = absl::Milliseconds(1)},
       2);
  EXPECT_FALSE(workers_->next_deadline().is_never());
  absl::SleepFor(absl::Milliseconds(5));
  workers_->RunTimers(done_);
  EXPECT_EQ(workers_->CountLive(), 1u);
  EXPECT_EQ(workers_->CountIdle(), 1u);
  workers_->RunTimers(done_);
  EXPECT_EQ(workers_->CountLive(), 1u);
}

TEST_F(PoolWorkersTest, WornWorkersEnd) {
  Make({.workers = 1, .max_tasks_per_worker = 2}, 1);
  for (const Phase phase : {Phase::kIdle, Phase::kEnding}) {
    EXPECT_EQ(Send(workers_->Reserve(MakeTask(1))), nullptr);
    EXPECT_THAT(Accept(worker(0)), IsOk());
    EXPECT_EQ(worker(0).phase, phase);
  }
  EXPECT_THAT(Told(), ElementsAre(IsOk(), IsOk()));
  EXPECT_THAT(Remove(worker(0)), IsOkAndHolds(nullptr));
}

TEST_F(PoolWorkersTest, OneThreadLeadsAWorker) {
  Make({.workers = 1}, 1);
  EXPECT_EQ(workers_->Lead(1), nullptr);
  EXPECT_EQ(Send(workers_->Reserve(MakeTask(1))), nullptr);
  EXPECT_EQ(workers_->Lead(2), nullptr);
  EXPECT_EQ(workers_->Lead(1), &worker(0));
  EXPECT_EQ(workers_->Lead(1), nullptr);
  Await(worker(0));
  EXPECT_THAT(poller_->Wait(Deadline::After(absl::Milliseconds(20))),
              ElementsAre());  // The leader's.
  workers_->StopLeading(worker(0));
  EXPECT_THAT(poller_->Wait(Watchdog()), ElementsAre(worker(0).channel_key()));
}

}  // namespace
}  // namespace tenon::spawn
