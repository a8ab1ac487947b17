// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The functions of a TensorQueue, within one process.

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using absl::StatusCode;
using testing::HasSubstr;
using testing::Optional;

TensorMessage Number(int64_t number) {
  TensorMessage message;
  message.Add(number);
  return message;
}

struct Pair {
  std::unique_ptr<TensorQueue> a, b;
};

Pair NewPair(size_t capacity, const TensorQueueParticipantOptions& use = {}) {
  Pair pair;
  pair.a = TensorQueue::Create({.capacity = capacity}, use).value();
  pair.b = TensorQueue::Open(pair.a->Share().value()).value();
  return pair;
}

TEST(TensorQueueCallsTest, TryPutAndTryGetNeverWait) {
  const Pair pair = NewPair(2);
  EXPECT_THAT(pair.b->TryGet(), IsOkAndHolds(testing::Eq(std::nullopt)));
  EXPECT_TRUE(pair.b->empty());
  EXPECT_THAT(pair.a->TryPut(Number(1)), IsOkAndHolds(true));
  EXPECT_THAT(pair.a->TryPut(Number(2)), IsOkAndHolds(true));
  EXPECT_THAT(pair.a->TryPut(Number(3)), IsOkAndHolds(false));
  EXPECT_TRUE(pair.a->full());
  EXPECT_EQ(pair.a->own_size(), 2u);
  EXPECT_EQ(pair.b->size(), 2u);
  TENON_ASSERT_OK_AND_ASSIGN(const auto got, pair.b->TryGet());
  ASSERT_TRUE(got.has_value());
  EXPECT_THAT(got->integer(0), IsOkAndHolds(1));
}

// The CPU cannot write messages into it: they are in an arena of the CPU.
TEST(TensorQueueCallsTest, AnArenaOnADeviceGetsTensorsAndNoMessages) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto arena, CreateArenaOnDevice({kDLCUDA, 0}, {.name = "pool"}));
  const Pair pair = NewPair(4, {.arena = arena});
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      pair.a->CreateTensor(kDtypeOf<float>, {1000}, TestDeadline()));
  EXPECT_TRUE(SameDevice(tensor.device(), {kDLCUDA, 0}));
  TensorMessage large;
  large.Add(std::string(100'000, 'x'));
  ASSERT_THAT(pair.a->Put(large, TestDeadline()), IsOk());
  EXPECT_EQ(arena->Use().blocks_in_use, 1u);
  TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got,
                             pair.b->Get(TestDeadline()));
  EXPECT_THAT(got.string(0), IsOkAndHolds(testing::SizeIs(100'000)));
}

TEST(TensorQueueCallsTest, AMessageThatIsNotOneTensorStaysThere) {
  const Pair pair = NewPair(4);
  EXPECT_THAT(pair.b->TryGetTensor(), IsOkAndHolds(testing::Eq(std::nullopt)));
  EXPECT_THAT(pair.b->GetTensor(Deadline::Passed()),
              StatusIs(StatusCode::kDeadlineExceeded));
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      pair.a->CreateTensor(kDtypeOf<int64_t>, {3}, TestDeadline()));
  TensorMessage two;
  two.Add(tensor).Add(7);
  TensorMessage word;
  word.Add("word");
  for (const TensorMessage& message : {two, word, TensorMessage()}) {
    ASSERT_THAT(pair.a->Put(message, TestDeadline()), IsOk());
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(pair.b->GetTensor(TestDeadline()),
                  StatusIs(StatusCode::kInvalidArgument,
                           HasSubstr("want exactly one tensor")));
      EXPECT_THAT(pair.b->TryGetTensor(),
                  StatusIs(StatusCode::kInvalidArgument));
    }
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got,
                               pair.b->Get(TestDeadline()));
    EXPECT_EQ(got.size(), message.size());
  }
}

TEST(TensorQueueCallsTest, TensorsOfEveryRankArriveAsTheyWere) {
  const Pair pair = NewPair(4);
  std::vector<int64_t> shape;
  for (int rank = 0; rank <= TensorSpec::kMaxRank; ++rank) {
    for (const int64_t last : {2, 1, 0}) {
      if (rank > 0) shape.back() = last;
      TENON_ASSERT_OK_AND_ASSIGN(
          const Tensor tensor,
          pair.a->CreateTensor(kDtypeOf<float>, shape, TestDeadline()));
      ASSERT_THAT(pair.a->Put(tensor, TestDeadline()), IsOk());
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor got,
                                 pair.b->GetTensor(TestDeadline()));
      EXPECT_EQ(got.spec(), tensor.spec());
    }
    if (rank > 0) shape.back() = 2;
    shape.push_back(2);
  }
}

TEST(TensorQueueCallsTest, DeadlinesEndWaiting) {
  const Pair pair = NewPair(1);
  EXPECT_THAT(pair.b->Get(Deadline::After(absl::Milliseconds(5))),
              StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_THAT(pair.b->GetBatch(4, Deadline::Passed()),
              StatusIs(StatusCode::kDeadlineExceeded));
  ASSERT_THAT(pair.a->Put(Number(1), Deadline::Passed()), IsOk());
  EXPECT_THAT(pair.a->Put(Number(2), Deadline::After(absl::Milliseconds(5))),
              StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_THAT(pair.a->AwaitTaken(Deadline::After(absl::Milliseconds(5))),
              StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("1 messages")));
}

TEST(TensorQueueCallsTest, BatchesArriveWholeAndInOrder) {
  const Pair pair = NewPair(8);
  std::vector<TensorMessage> messages;
  for (int64_t i = 0; i < 5; ++i) {
    TensorMaker maker(TensorWay::kFileDescriptor, pair.a.get(), "test");
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(i));
    messages.emplace_back(tensor);
  }
  ASSERT_THAT(pair.a->PutBatch(messages, TestDeadline()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto some,
                             pair.b->GetBatch(3, TestDeadline()));
  TENON_ASSERT_OK_AND_ASSIGN(const auto rest,
                             pair.b->GetBatch(100, TestDeadline()));
  ASSERT_EQ(some.size(), 3u);
  ASSERT_EQ(rest.size(), 2u);
  for (int64_t i = 0; i < 5; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_TRUE(IsTensorOf((at < 3 ? some[at] : rest[at - 3]).tensor(0), i));
  }
  EXPECT_THAT(pair.a->PutBatch({}, TestDeadline()),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(pair.a->PutBatch(std::vector<TensorMessage>(9), TestDeadline()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("want 1 to 8")));
}

TEST(TensorQueueCallsTest, AfterCloseQueuedItemsAreReceived) {
  const Pair pair = NewPair(4);
  ASSERT_THAT(pair.a->Put(Number(1), TestDeadline()), IsOk());
  ASSERT_THAT(pair.b->Close(), IsOk());
  EXPECT_TRUE(pair.a->closed());
  EXPECT_THAT(pair.a->Put(Number(2), TestDeadline()),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(pair.a->TryPut(Number(2)),
              StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(pair.b->Get(TestDeadline()), IsOk());
  EXPECT_THAT(pair.b->Get(TestDeadline()), StatusIs(StatusCode::kOutOfRange));
}

// The arenas in which participants copy, and their errors.
TEST(TensorQueueCallsTest, EachParticipantHasTheNameOfTheQueue) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto one,
                             TensorQueue::Create({.name = "names-of-arenas"}));
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, one->Share());
  TENON_ASSERT_OK_AND_ASSIGN(const auto other,
                             TensorQueue::Open(std::move(handle)));
  std::vector<Tensor> tensors;
  for (TensorQueue* queue : {one.get(), other.get()}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Tensor tensor,
        queue->CreateTensor(kDtypeOf<float>, {4}, TestDeadline()));
    tensors.push_back(std::move(tensor));
    EXPECT_THAT(queue->Get(Deadline::Passed()),
                StatusIs(StatusCode::kDeadlineExceeded,
                         HasSubstr("queue 'names-of-arenas' is empty")));
  }
  TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report,
                             QueryLedger({getpid()}));
  EXPECT_EQ(std::count_if(report.arenas.begin(), report.arenas.end(),
                          [](const ArenaReport& arena) {
                            return arena.name == "names-of-arenas";
                          }),
            2);
}

// The name of a queue may be longer than that of an arena.
TEST(TensorQueueCallsTest, AQueueWithALongNameHasAnArena) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto queue, TensorQueue::Create({.name = std::string(100, 'q')}));
  EXPECT_THAT(queue->CreateTensor(kDtypeOf<float>, {4}, TestDeadline()),
              IsOk());
}

TEST(TensorQueueCallsTest, DrainDiscardsAndReleases) {
  const Pair pair = NewPair(4);
  TensorMaker maker(TensorWay::kPooled, pair.a.get(), "test");
  for (int64_t i = 0; i < 3; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(i));
    ASSERT_THAT(pair.a->Put(tensor, TestDeadline()), IsOk());
  }
  EXPECT_EQ(pair.a->held(), 3u);
  EXPECT_THAT(pair.b->Drain(), IsOkAndHolds(3));
  TensorQueue::Reap();
  EXPECT_EQ(pair.a->held(), 0u);
}

TEST(TensorQueueCallsTest, AParticipantLeftAloneIsTold) {
  Pair pair = NewPair(1);
  ASSERT_THAT(pair.a->Put(Number(1), TestDeadline()), IsOk());
  pair.b.reset();
  EXPECT_THAT(pair.a->Put(Number(2), Deadline::Never()),
              StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(pair.a->AwaitTaken(Deadline::Never()),
              StatusIs(StatusCode::kUnavailable));
}

// A wait for one queue drops the tensors forwarded through another.
TEST(TensorQueueCallsTest, AWaitElsewhereDropsTakenTensors) {
  const Pair forward = NewPair(4);
  const Pair other = NewPair(4);
  TensorMaker maker(TensorWay::kFileDescriptor, forward.a.get(), "test");
  // So that all participants know each other.
  for (const Pair* pair : {&forward, &other}) {
    ASSERT_THAT(pair->a->Put(Number(0), TestDeadline()), IsOk());
    ASSERT_THAT(pair->b->Get(TestDeadline()), IsOk());
  }
  const size_t fds = CountOpenFds();
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(1));
    ASSERT_THAT(forward.a->Put(tensor, TestDeadline()), IsOk());
  }
  std::thread waiting(
      [&] { EXPECT_THAT(other.b->Get(TestDeadline()), IsOk()); });
  EXPECT_TRUE(GetsTensorOf(*forward.b, 1));
  // No further call on that queue.
  EXPECT_TRUE(Becomes([&] { return forward.a->held() == 0; }));
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
  EXPECT_THAT(other.a->Put(Number(2), TestDeadline()), IsOk());
  waiting.join();
}

// A thread that waits asks the one that puts to drop taken tensors; it may only
// create tensors from then on.
TEST(TensorQueueCallsTest, CreateTensorAnswersARequestToReap) {
  const Pair pair = NewPair(4);
  const Pair other = NewPair(4);
  const auto create = [&] {
    return pair.a->CreateTensor(kDtypeOf<int64_t>, {3}, TestDeadline());
  };
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, create());
  ASSERT_THAT(pair.a->Put(tensor, TestDeadline()), IsOk());
  ASSERT_THAT(pair.b->GetTensor(TestDeadline()), IsOk());
  EXPECT_EQ(pair.a->held(), 1u);
  std::thread([&] {
    EXPECT_THAT(other.b->Get(Deadline::Passed()),
                StatusIs(StatusCode::kDeadlineExceeded));
  }).join();
  EXPECT_THAT(create(), IsOk());
  EXPECT_EQ(pair.a->held(), 0u);
}

TEST(TensorQueueCallsTest, AQuotaIsWaitedForAndIsNoTrap) {
  ArenaOptions options;
  options.segment_bytes = size_t{256} << 10;
  options.quota_bytes = options.segment_bytes;
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create(options));
  const Pair pair = NewPair(100, {.arena = arena});
  const std::vector<int64_t> shape = {1 << 13};  // 64 KiB.
  std::thread getter([&] {
    for (int i = 0; i < 50; ++i)
      EXPECT_THAT(pair.b->Get(TestDeadline()), IsOk());
  });
  for (int i = 0; i < 50; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Tensor tensor,
        pair.a->CreateTensor(kDtypeOf<int64_t>, shape, TestDeadline()));
    ASSERT_THAT(pair.a->Put(tensor, TestDeadline()), IsOk());
  }
  getter.join();
  // Private tensors are copied there, and wait for memory, too.
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor one,
                             Tensor::Create(kDtypeOf<int64_t>, shape));
  absl::Status status;
  while (status.ok()) {
    status = pair.a->Put(one, Deadline::After(absl::Milliseconds(5)));
  }
  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_LE(pair.a->size(), 4u);
  const uint64_t before = pair.a->size();
  ASSERT_THAT(pair.b->Get(TestDeadline()), IsOk());
  EXPECT_THAT(pair.a->Put(one, TestDeadline()), IsOk());
  EXPECT_EQ(pair.a->size(), before);
  // A request that can never succeed is rejected at once.
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor huge, Tensor::Create(kDtypeOf<int64_t>, {int64_t{1} << 20}));
  EXPECT_FALSE(pair.a->Put(huge, Deadline::Passed()).ok());
  EXPECT_EQ(pair.a->size(), before);
}

TEST(TensorQueueCallsTest, MoreSegmentsThanCanBeOutWait) {
  const Pair pair = NewPair(512);
  TensorMaker maker(TensorWay::kFileDescriptor, pair.a.get(), "test");
  absl::Status status;
  int64_t sent = 0;
  for (; status.ok(); ++sent) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(sent));
    status = pair.a->Put(tensor, Deadline::After(absl::Milliseconds(5)));
  }
  EXPECT_THAT(status, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(sent, 249);
  std::thread getter([&] { EXPECT_TRUE(GetsTensorOf(*pair.b, 0)); });
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(248));
  EXPECT_THAT(pair.a->Put(tensor, TestDeadline()), IsOk());
  getter.join();
  for (int64_t i = 1; i < 249; ++i) ASSERT_TRUE(GetsTensorOf(*pair.b, i));
}

// A getter without descriptors leaves the message in the queue.
TEST(TensorQueueCallsTest, WithoutDescriptorsNothingIsTaken) {
  const Pair pair = NewPair(4);
  TensorMaker maker(TensorWay::kFileDescriptor, pair.a.get(), "test");
  ASSERT_THAT(pair.a->Put(Number(1), TestDeadline()), IsOk());
  // Now they know each other.
  ASSERT_THAT(pair.b->Get(TestDeadline()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(5));
  ASSERT_THAT(pair.a->Put(tensor, TestDeadline()), IsOk());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto got = pair.b->Get(TestDeadline());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(got, StatusIs(StatusCode::kResourceExhausted));
  EXPECT_EQ(pair.b->size(), 1u);
  EXPECT_TRUE(GetsTensorOf(*pair.b, 5));
}

TEST(TensorQueueCallsTest, ReceivedDescriptorsAreCloseOnExec) {
  const Pair pair = NewPair(4);
  for (const TensorWay way :
       {TensorWay::kFileDescriptor, TensorWay::kOwnerWritten}) {
    TensorMaker maker(way, pair.a.get(), "test");
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(1));
    ASSERT_THAT(pair.a->Put(tensor, TestDeadline()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor got,
                               pair.b->GetTensor(TestDeadline()));
    ASSERT_NE(got.storage()->fd(), tensor.storage()->fd());
    EXPECT_EQ(fcntl(got.storage()->fd(), F_GETFD), FD_CLOEXEC);
  }
}

// The descriptors published for a message whose Put() failed are removed.
TEST(TensorQueueCallsTest, APutThatFailsLeavesNothingOut) {
  const Pair pair = NewPair(1);
  TensorMaker maker(TensorWay::kFileDescriptor, pair.a.get(), "test");
  ASSERT_THAT(pair.a->Put(Number(0), TestDeadline()), IsOk());
  // Now they know each other.
  ASSERT_THAT(pair.b->Get(TestDeadline()), IsOk());
  ASSERT_THAT(pair.a->Put(Number(1), TestDeadline()), IsOk());
  const size_t fds = CountOpenFds();
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(5));
    EXPECT_THAT(pair.a->Put(tensor, Deadline::Passed()),
                StatusIs(StatusCode::kDeadlineExceeded));
  }
  ASSERT_THAT(pair.b->Drain(), IsOkAndHolds(1));
  TensorQueue::Reap();
  EXPECT_EQ(CountOpenFds(), fds);
  EXPECT_EQ(pair.a->held(), 0u);
}

TEST(TensorQueueCallsTest, WorksInAnEventLoop) {
  const Pair pair = NewPair(4);
  TENON_ASSERT_OK_AND_ASSIGN(const int fd, pair.b->PollFd());
  TENON_ASSERT_OK_AND_ASSIGN(const bool sleep, pair.b->Arm());
  EXPECT_TRUE(sleep);
  ASSERT_THAT(pair.a->Put(Number(1), TestDeadline()), IsOk());
  pollfd wanted = {.fd = fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&wanted, 1, 10'000), 1);
  pair.b->Disarm();
  EXPECT_THAT(pair.b->Get(Deadline::Passed()), IsOk());
}

TEST(TensorQueueCallsTest, IsInertInAForkedChild) {
  const Pair pair = NewPair(4);
  TensorMaker maker(TensorWay::kPooled, pair.a.get(), "test");
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(1));
  ASSERT_THAT(pair.a->Put(tensor, TestDeadline()), IsOk());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(pair.a->Put(tensor, TestDeadline()),
                StatusIs(StatusCode::kFailedPrecondition));
    EXPECT_THAT(pair.b->Get(TestDeadline()),
                StatusIs(StatusCode::kFailedPrecondition));
    EXPECT_THAT(pair.a->Share(), StatusIs(StatusCode::kFailedPrecondition));
    TensorQueue::Reap();
  }));
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, pair.a->Share());
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const auto own,
                               TensorQueue::Open(std::move(handle)));
    EXPECT_TRUE(GetsTensorOf(*own, 1));
    ASSERT_THAT(own->Put(Number(5), TestDeadline()), IsOk());
  }));
  TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got,
                             pair.b->Get(TestDeadline()));
  EXPECT_THAT(got.integer(0), IsOkAndHolds(5));
}

TEST(TensorQueueCallsTest, LeavesNothingBehind) {
  const size_t fds = CountOpenFds();
  for (int round = 0; round < 3; ++round) {
    const Pair pair = NewPair(8);
    for (const TensorWay way : kAllTensorWays) {
      TensorMaker maker(way, pair.a.get(), UniqueTestPrefix());
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(1));
      ASSERT_THAT(pair.a->Put(tensor, TestDeadline()), IsOk());
      EXPECT_TRUE(GetsTensorOf(*pair.b, 1));
    }
  }
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

}  // namespace
}  // namespace tenon
