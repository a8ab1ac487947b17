// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SimpleQueue, JoinableQueue, Pipe, and handles through a Channel.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/byte_queue.h"
#include "tenon/ipc/queue/joinable_queue.h"
#include "tenon/ipc/queue/pipe.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_channel.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/simple_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr auto kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

const Deadline kNow = Deadline::Passed();
Deadline Soon() { return Deadline::After(absl::Seconds(20)); }
Deadline AMoment() { return Deadline::After(absl::Milliseconds(20)); }

template <typename Q>
Q Another(const Q& queue) {
  auto handle = queue.Share();
  EXPECT_THAT(handle, IsOk());
  auto other = Q::Open(*std::move(handle));
  EXPECT_THAT(other, IsOk());
  return *std::move(other);
}

using Simple = SimpleQueue<uint64_t>;
using Tasks = JoinableQueue<uint64_t>;
using Words = Pipe<uint64_t>;

TEST(ByteQueueTest, CarriesItemsOfItsSize) {
  TENON_ASSERT_OK_AND_ASSIGN(ByteQueue queue,
                             ByteQueue::Create(QueueType::kItems, 4, {}));
  const std::array<std::byte, 8> two = {std::byte{1}, std::byte{2}};
  std::array<std::byte, 8> received;
  EXPECT_THAT(queue.Put(std::span(two).first(5), kNow),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(queue.Put(two, kNow), IsOk());
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_THAT(queue.Get(received, kNow), IsOkAndHolds(2u));
  EXPECT_EQ(received, two);
  EXPECT_THAT(queue.TryGet(received), IsOkAndHolds(0u));
}

TEST(ByteQueueTest, TensorsAreLeftToTensorQueue) {
  EXPECT_THAT(ByteQueue::Create(QueueType::kTensors, 128, {}),
              StatusIs(kInvalidArgument, HasSubstr("TensorQueue")));
  TENON_ASSERT_OK_AND_ASSIGN(auto tensors, TensorQueue::Create());
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, tensors->Share());
  EXPECT_THAT(ByteQueue::Open(std::move(handle), QueueType::kTensors, 128),
              StatusIs(kInvalidArgument, HasSubstr("TensorQueue")));
  EXPECT_THAT(TensorQueue::Open(std::move(handle)), IsOk());
}

TEST(ByteQueueTest, TasksAreNotDiscarded) {
  TENON_ASSERT_OK_AND_ASSIGN(ByteQueue queue,
                             ByteQueue::Create(QueueType::kTasks, 4, {}));
  EXPECT_THAT(queue.Drain(), StatusIs(kFailedPrecondition));
}

// One wait that ends without an item, and one without room.
TEST(ByteQueueTest, SleepsAreCounted) {
  TENON_ASSERT_OK_AND_ASSIGN(
      ByteQueue queue,
      ByteQueue::Create(QueueType::kItems, 4, {.capacity = 1}));
  const std::array<std::byte, 4> item = {};
  std::array<std::byte, 4> received;
  EXPECT_THAT(queue.Get(received, AMoment()), StatusIs(kDeadlineExceeded));
  EXPECT_GE(queue.stats().get_sleeps, 1u);
  EXPECT_EQ(queue.stats().put_sleeps, 0u);
  EXPECT_EQ(queue.stats().get_waits.count(), 1u);
  EXPECT_GT(queue.stats().get_waits.total_ns, 0u);
  // It looks, and does not wait.
  EXPECT_THAT(queue.Get(received, kNow), StatusIs(kDeadlineExceeded));
  EXPECT_EQ(queue.stats().get_waits.count(), 1u);
  EXPECT_THAT(queue.Put(item, kNow), IsOk());
  EXPECT_THAT(queue.Put(item, AMoment()), StatusIs(kDeadlineExceeded));
  EXPECT_GE(queue.stats().put_sleeps, 1u);
  EXPECT_EQ(queue.stats().put_waits.count(), 1u);
  EXPECT_EQ(queue.stats().get_waits.count(), 1u);
}

TEST(SimpleQueueTest, PutGetEmpty) {
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, Simple::Create());
  EXPECT_TRUE(queue.empty());
  auto other = std::make_optional(Another(queue));
  ASSERT_THAT(other->Put(1), IsOk());
  EXPECT_FALSE(queue.empty());
  EXPECT_THAT(queue.Get(), IsOkAndHolds(1u));
  other.reset();
  EXPECT_THAT(queue.Get(), StatusIs(kUnavailable));
}

TEST(JoinableQueueTest, JoinWaitsForWhatWasGot) {
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, Tasks::Create());
  EXPECT_THAT(queue.Join(kNow), IsOk());
  auto worker = Another(queue);
  ASSERT_THAT(queue.Put(1, kNow), IsOk());
  EXPECT_THAT(queue.Join(AMoment()), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(worker.TaskDone(), StatusIs(kFailedPrecondition));
  EXPECT_THAT(worker.Get(kNow), IsOkAndHolds(1u));
  EXPECT_THAT(queue.Join(AMoment()), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(queue.TaskDone(), StatusIs(kFailedPrecondition));
  EXPECT_THAT(worker.TaskDone(), IsOk());
  EXPECT_THAT(queue.Join(kNow), IsOk());
  EXPECT_THAT(worker.Join(kNow), IsOk());
  EXPECT_THAT(worker.TaskDone(), StatusIs(kFailedPrecondition));
}

// Each task puts two smaller ones.
TEST(JoinableQueueTest, TasksPutTasks) {
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, Tasks::Create({.capacity = 4096}));
  std::vector<std::thread> workers;
  std::vector<Tasks> handles;
  for (int i = 0; i < 3; ++i) handles.push_back(Another(queue));
  std::atomic<int> done = 0;
  for (Tasks& mine : handles) {
    workers.emplace_back([&] {
      for (;;) {
        const auto task = mine.Get(Soon());
        if (!task.ok()) {
          EXPECT_THAT(task, StatusIs(absl::StatusCode::kOutOfRange));
          return;
        }
        for (uint64_t child = 0; *task > 0 && child < 2; ++child) {
          EXPECT_THAT(mine.Put(*task - 1, Soon()), IsOk());
        }
        ++done;
        EXPECT_THAT(mine.TaskDone(), IsOk());
      }
    });
  }
  for (int round = 1; round <= 5; ++round) {
    ASSERT_THAT(queue.Put(8, kNow), IsOk());
    EXPECT_THAT(queue.Join(Soon()), IsOk());
    EXPECT_EQ(done, round * 511);
    EXPECT_TRUE(queue.empty());
  }
  EXPECT_THAT(queue.Close(), IsOk());
  for (std::thread& worker : workers) worker.join();
}

TEST(JoinableQueueTest, TasksThatDieAreCounted) {
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, Tasks::Create());
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue.Share());
  for (uint64_t i = 0; i < 5; ++i) ASSERT_THAT(queue.Put(i, kNow), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild worker,
      ForkedChild::Fork({.name = "worker"}, [&](const Reporter&) {
        auto mine = Tasks::Open(std::move(handle));
        ASSERT_THAT(mine, IsOk());
        for (int i = 0; i < 4; ++i) ASSERT_THAT(mine->Get(Soon()), IsOk());
        ASSERT_THAT(mine->TaskDone(2), IsOk());
        // Its own task is not done, so this waits until the process is killed.
        mine->Join(Deadline::Never()).IgnoreError();
      }));
  ASSERT_TRUE(Becomes([&] { return queue.size() == 1; }));
  EXPECT_THAT(queue.Get(Soon()), IsOkAndHolds(4u));
  EXPECT_THAT(queue.TaskDone(), IsOk());
  std::thread kills([&] {
    absl::SleepFor(absl::Milliseconds(20));
    worker.Kill();
  });
  EXPECT_THAT(queue.Join(Soon()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("2 of 5 tasks")));
  kills.join();
  // The new holder of the dead participant's slot owes no tasks.
  auto next = Another(queue);
  ASSERT_THAT(queue.Put(9, kNow), IsOk());
  EXPECT_THAT(next.Get(Soon()), IsOkAndHolds(9u));
  EXPECT_THAT(next.TaskDone(), IsOk());
  EXPECT_THAT(next.TaskDone(), StatusIs(kFailedPrecondition));
  EXPECT_THAT(queue.Join(Soon()),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("2 of 6 tasks")));
}

TEST(JoinableQueueTest, NoParticipantIsLeftToDoThem) {
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, Tasks::Create());
  { auto other = Another(queue); }
  ASSERT_THAT(queue.Put(1, kNow), IsOk());
  EXPECT_THAT(queue.Join(Soon()), StatusIs(kUnavailable));
}

TEST(PipeTest, BothWays) {
  TENON_ASSERT_OK_AND_ASSIGN(auto pipe, Words::Create({.capacity = 4}));
  ASSERT_THAT(pipe.Send(1, kNow), IsOk());
  EXPECT_THAT(pipe.Receive(AMoment()), StatusIs(kDeadlineExceeded));
  auto other = std::make_optional(Another(pipe));
  EXPECT_FALSE(pipe.Poll());
  ASSERT_THAT(other->Send(2, kNow), IsOk());
  EXPECT_TRUE(pipe.Poll());
  EXPECT_THAT(pipe.Receive(kNow), IsOkAndHolds(2u));
  EXPECT_THAT(other->Receive(kNow), IsOkAndHolds(1u));
  ASSERT_THAT(other->Send(3, kNow), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, pipe.Share());
  EXPECT_THAT(Words::Open(std::move(handle)),
              StatusIs(absl::StatusCode::kResourceExhausted));
  other.reset();
  EXPECT_THAT(pipe.Receive(Soon()), IsOkAndHolds(3u));
  EXPECT_THAT(pipe.Receive(Soon()), StatusIs(kUnavailable));
  EXPECT_THAT(pipe.Send(4, Soon()), StatusIs(kUnavailable));
}

TEST(PipeTest, TheEndComesAfterWhatWasSent) {
  TENON_ASSERT_OK_AND_ASSIGN(auto pipe, Words::Create({.capacity = 4}));
  auto other = Another(pipe);
  ASSERT_THAT(other.Send(1, kNow), IsOk());
  ASSERT_THAT(other.Close(), IsOk());
  EXPECT_TRUE(pipe.closed());
  EXPECT_THAT(pipe.Receive(Soon()), IsOkAndHolds(1u));
  EXPECT_THAT(pipe.Receive(Soon()), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(pipe.Send(2, Soon()), StatusIs(kFailedPrecondition));
}

TEST(PipeTest, OneWay) {
  TENON_ASSERT_OK_AND_ASSIGN(auto sends,
                             Words::Create({.use = PipeUse::kSend}));
  const auto receives = std::make_unique<Words>(Another(sends));
  EXPECT_EQ(receives->use(), PipeUse::kReceive);
  EXPECT_THAT(receives->Send(1, kNow), StatusIs(kFailedPrecondition));
  EXPECT_THAT(sends.Receive(kNow), StatusIs(kFailedPrecondition));
  EXPECT_THAT(sends.Send(1, kNow), IsOk());
  EXPECT_THAT(receives->Receive(kNow), IsOkAndHolds(1u));
  EXPECT_THAT(Words::Open({}), StatusIs(kInvalidArgument));
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, sends.Share());
  EXPECT_THAT(Queue<uint64_t>::Open(std::move(handle)),
              StatusIs(kInvalidArgument));
}

// The other end is killed while this one waits.
TEST(PipeTest, EndsWithTheOtherEnd) {
  TENON_ASSERT_OK_AND_ASSIGN(auto pipe, Words::Create({.capacity = 2}));
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, pipe.Share());
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild child,
      ForkedChild::Fork({.name = "end"}, [&](const Reporter&) {
        auto mine = Words::Open(std::move(handle));
        ASSERT_THAT(mine, IsOk());
        for (;;) {
          const auto got = mine->Receive(Soon());
          if (!got.ok()) return;
          ASSERT_THAT(mine->Send(*got + 1, Soon()), IsOk());
        }
      }));
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_THAT(pipe.Send(i, Soon()), IsOk());
    ASSERT_THAT(pipe.Receive(Soon()), IsOkAndHolds(i + 1));
  }
  std::thread kills([&] {
    absl::SleepFor(absl::Milliseconds(10));
    child.Kill();
  });
  EXPECT_THAT(pipe.Receive(Soon()), StatusIs(kUnavailable));
  kills.join();
}

TEST(QueueChannelTest, AHandleGoesThroughAChannel) {
  const size_t fds = CountOpenFds();
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto ends,
                               Channel::CreatePair({.allow_sockets = true}));
    TENON_ASSERT_OK_AND_ASSIGN(
        auto queue, Queue<uint64_t>::Create({.max_participants = 64}));
    TENON_ASSERT_OK_AND_ASSIGN(const QueueHandle handle, queue.Share());
    ASSERT_THAT(SendQueueHandle(ends.first, handle, Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle received,
                               ReceiveQueueHandle(ends.second, Soon()));
    TENON_ASSERT_OK_AND_ASSIGN(auto other,
                               Queue<uint64_t>::Open(std::move(received)));
    ASSERT_THAT(other.Put(1, kNow), IsOk());
    EXPECT_THAT(queue.Get(kNow), IsOkAndHolds(1u));
  }
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

TEST(QueueChannelTest, AChannelWithoutSocketsRefusesIt) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, Queue<uint64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(const QueueHandle handle, queue.Share());
  ASSERT_THAT(SendQueueHandle(ends.first, handle, Soon()), IsOk());
  EXPECT_THAT(ReceiveQueueHandle(ends.second, Soon()),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace tenon
