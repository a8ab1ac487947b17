// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/queue.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kOutOfRange = absl::StatusCode::kOutOfRange;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr auto kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

const Deadline kNow = Deadline::Passed();
Deadline Soon() { return Deadline::After(absl::Seconds(20)); }
Deadline AMoment() { return Deadline::After(absl::Milliseconds(20)); }

template <typename T = uint64_t>
Queue<T> MakeQueue(const QueueOptions& options = {.capacity = 4}) {
  auto queue = Queue<T>::Create(options);
  EXPECT_THAT(queue, IsOk());
  return *std::move(queue);
}

template <typename T>
Queue<T> Another(const Queue<T>& queue) {
  auto handle = queue.Share();
  EXPECT_THAT(handle, IsOk());
  auto other = Queue<T>::Open(*std::move(handle));
  EXPECT_THAT(other, IsOk());
  return *std::move(other);
}

TEST(QueueTest, WhatOnePutsIsGotInItsOrder) {
  auto queue = MakeQueue();
  auto other = Another(queue);
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_THAT(queue.Put(i, kNow), IsOk());
    ASSERT_THAT(other.Put(1000 + i, kNow), IsOk());
    EXPECT_EQ(other.size(), 2u);
    EXPECT_EQ(other.own_size(), 1u);
    TENON_ASSERT_OK_AND_ASSIGN(const uint64_t first, queue.Get(kNow));
    TENON_ASSERT_OK_AND_ASSIGN(const uint64_t second, other.Get(kNow));
    EXPECT_EQ(std::min(first, second), i);
    EXPECT_EQ(std::max(first, second), 1000 + i);
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_THAT(queue.TryGet(), IsOkAndHolds(std::nullopt));
}

TEST(QueueTest, CapacityIsThatOfOneParticipant) {
  auto queue = MakeQueue({.capacity = 3});
  auto other = Another(queue);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(queue.full());
    ASSERT_THAT(queue.TryPut(i), IsOkAndHolds(true));
  }
  EXPECT_TRUE(queue.full());
  EXPECT_THAT(queue.TryPut(3), IsOkAndHolds(false));
  EXPECT_THAT(queue.Put(3, AMoment()),
              StatusIs(kDeadlineExceeded, HasSubstr("3 of 3")));
  EXPECT_FALSE(other.full());
  ASSERT_THAT(other.TryPut(10), IsOkAndHolds(true));
  EXPECT_EQ(queue.size(), 4u);
}

TEST(QueueTest, ItemsMayHaveAnySize) {
  struct Odd {
    std::array<uint8_t, 13> bytes;
  };
  auto queue = MakeQueue<Odd>();
  auto other = Another(queue);
  for (uint8_t i = 0; i < 50; ++i) {
    Odd odd;
    odd.bytes.fill(i);
    ASSERT_THAT(queue.Put(odd, kNow), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Odd got, other.Get(kNow));
    EXPECT_EQ(got.bytes, odd.bytes);
  }
}

TEST(QueueTest, Batches) {
  auto queue = MakeQueue();
  auto other = Another(queue);
  const std::array<uint64_t, 3> three = {1, 2, 3};
  for (int i = 0; i < 10; ++i) {
    ASSERT_THAT(queue.PutBatch(three, kNow), IsOk());
    EXPECT_THAT(queue.PutBatch(three, kNow), StatusIs(kDeadlineExceeded));
    EXPECT_EQ(queue.size(), 3u);
    std::array<uint64_t, 2> two;
    EXPECT_THAT(other.GetBatch(two, kNow), IsOkAndHolds(2u));
    EXPECT_THAT(two, ElementsAre(1, 2));
    EXPECT_THAT(other.GetBatch(two, kNow), IsOkAndHolds(1u));
    EXPECT_EQ(two[0], 3u);
  }
  const std::array<uint64_t, 5> five = {};
  EXPECT_THAT(queue.PutBatch(five, kNow), StatusIs(kInvalidArgument));
  EXPECT_THAT(queue.PutBatch({}, kNow), StatusIs(kInvalidArgument));
  EXPECT_THAT(queue.GetBatch({}, kNow), StatusIs(kInvalidArgument));
}

TEST(QueueTest, WaitsForItemsAndForRoom) {
  auto queue = MakeQueue();
  auto other = Another(queue);
  EXPECT_THAT(queue.Get(AMoment()), StatusIs(kDeadlineExceeded));
  constexpr uint64_t kItems = 5000;
  std::thread putter([&] {
    for (uint64_t i = 0; i < kItems; ++i) {
      ASSERT_THAT(other.Put(i, Soon()), IsOk());
    }
  });
  for (uint64_t i = 0; i < kItems; ++i) {
    ASSERT_THAT(queue.Get(Soon()), IsOkAndHolds(i));
  }
  putter.join();
}

// One object, for putting and getting.
TEST(QueueTest, ThreadsShareAnObject) {
  auto queue = MakeQueue();
  constexpr uint64_t kItems = 2000;
  std::vector<std::thread> threads;
  std::array<std::atomic<int>, 2 * kItems> got = {};
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kItems; ++i) {
        ASSERT_THAT(queue.Put(t * kItems + i, Soon()), IsOk());
      }
    });
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kItems; ++i) {
        TENON_ASSERT_OK_AND_ASSIGN(const uint64_t item, queue.Get(Soon()));
        ++got[item];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& count : got) EXPECT_EQ(count, 1);
}

TEST(QueueTest, AThreadThatWaitsForItsTurnHasADeadline) {
  auto queue = MakeQueue();
  std::thread waits([&] { EXPECT_THAT(queue.Get(Soon()), IsOkAndHolds(7u)); });
  EXPECT_THAT(queue.Get(AMoment()), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(queue.Put(7, Soon()), IsOk());
  waits.join();
}

TEST(QueueTest, CloseKeepsQueuedItems) {
  auto queue = MakeQueue();
  auto other = Another(queue);
  ASSERT_THAT(queue.Put(1, kNow), IsOk());
  ASSERT_THAT(other.Close(), IsOk());
  EXPECT_TRUE(queue.closed());
  EXPECT_THAT(queue.Put(2, Soon()), StatusIs(kFailedPrecondition));
  EXPECT_THAT(other.TryPut(2), StatusIs(kFailedPrecondition));
  EXPECT_THAT(other.Get(Soon()), IsOkAndHolds(1u));
  EXPECT_THAT(other.Get(Soon()), StatusIs(kOutOfRange, HasSubstr("is closed")));
  EXPECT_THAT(queue.Get(kNow), StatusIs(kOutOfRange));
  EXPECT_THAT(queue.Close(), IsOk());
}

TEST(QueueTest, ErrorsOfEachProcessHaveItsName) {
  auto queue = MakeQueue({.name = "frames", .capacity = 4});
  auto other = Another(queue);
  for (Queue<uint64_t>* mine : {&queue, &other}) {
    EXPECT_THAT(
        mine->Get(kNow),
        StatusIs(kDeadlineExceeded, HasSubstr("queue 'frames' is empty")));
  }
}

TEST(QueueTest, CloseWakesWaiters) {
  auto queue = MakeQueue({.capacity = 1});
  auto other = Another(queue);
  auto third = Another(queue);
  ASSERT_THAT(third.Put(1, kNow), IsOk());
  std::thread puts([&] {
    EXPECT_THAT(third.Put(2, Soon()), StatusIs(kFailedPrecondition));
  });
  ASSERT_TRUE(Becomes([&] { return third.stats().put_asleep; }));
  ASSERT_THAT(queue.Close(), IsOk());
  puts.join();
  EXPECT_THAT(other.Drain(), IsOkAndHolds(1u));
  EXPECT_THAT(other.Get(Soon()), StatusIs(kOutOfRange));
}

TEST(QueueTest, Drain) {
  auto queue = MakeQueue();
  auto other = Another(queue);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_THAT(queue.Put(i, kNow), IsOk());
    ASSERT_THAT(other.Put(i, kNow), IsOk());
  }
  EXPECT_THAT(other.Drain(), IsOkAndHolds(8u));
  EXPECT_THAT(other.Drain(), IsOkAndHolds(0u));
  EXPECT_THAT(queue.Put(9, kNow), IsOk());
  EXPECT_THAT(other.Get(kNow), IsOkAndHolds(9u));
}

TEST(QueueTest, AParticipantLeftAloneIsTold) {
  auto queue = MakeQueue();
  EXPECT_THAT(queue.Get(AMoment()), StatusIs(kDeadlineExceeded));
  {
    auto other = Another(queue);
    ASSERT_THAT(other.Put(1, kNow), IsOk());
    EXPECT_THAT(queue.Get(kNow), IsOkAndHolds(1u));
    EXPECT_THAT(queue.Get(AMoment()), StatusIs(kDeadlineExceeded));
    ASSERT_THAT(other.Put(2, kNow), IsOk());
  }
  EXPECT_THAT(queue.Get(Soon()), IsOkAndHolds(2u));
  EXPECT_THAT(queue.Get(Soon()), StatusIs(kUnavailable, HasSubstr("left")));
  for (uint64_t i = 0; i < 4; ++i) ASSERT_THAT(queue.Put(i, kNow), IsOk());
  EXPECT_THAT(queue.Put(4, Soon()), StatusIs(kUnavailable));
  // Not sticky.
  auto another = Another(queue);
  EXPECT_THAT(another.Get(Soon()), IsOkAndHolds(0u));
  EXPECT_THAT(queue.Put(4, Soon()), IsOk());
}

// A participant sleeps while the only other one leaves.
TEST(QueueTest, LeavingWakesWaiters) {
  auto queue = MakeQueue();
  std::optional<Queue<uint64_t>> other = Another(queue);
  std::thread waits(
      [&] { EXPECT_THAT(queue.Get(Soon()), StatusIs(kUnavailable)); });
  ASSERT_TRUE(Becomes([&] { return queue.stats().get_asleep; }));
  other.reset();
  waits.join();
}

TEST(QueueTest, AFullTableSaysSo) {
  auto queue = MakeQueue({.capacity = 2, .max_participants = 2});
  std::optional<Queue<uint64_t>> other = Another(queue);
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue.Share());
  EXPECT_THAT(Queue<uint64_t>::Open(std::move(handle)),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("max_participants")));
  // A slot is free again once its participant has left, with items in its ring
  // or without.
  ASSERT_THAT(other->Put(5, kNow), IsOk());
  other.reset();
  other = Another(queue);
  EXPECT_THAT(other->Get(kNow), IsOkAndHolds(5u));
  other.reset();
  for (uint64_t i = 0; i < 100; ++i) {
    auto next = Another(queue);
    ASSERT_THAT(next.Put(i, kNow), IsOk());
    ASSERT_THAT(queue.Get(kNow), IsOkAndHolds(i));
    ASSERT_THAT(queue.Put(i, kNow), IsOk());
    ASSERT_THAT(next.Get(kNow), IsOkAndHolds(i));
  }
}

TEST(QueueTest, HoldsNoMoreDescriptorsThanItHad) {
  const size_t fds = CountOpenFds();
  {
    auto queue = MakeQueue();
    for (int i = 0; i < 50; ++i) {
      auto other = Another(queue);
      ASSERT_THAT(other.Put(1, kNow), IsOk());
      ASSERT_THAT(queue.Get(kNow), IsOk());
    }
    EXPECT_THAT(queue.Get(kNow), StatusIs(kUnavailable));
    EXPECT_LE(CountOpenFds(), fds + 1 + 16 + 1 + 3 + 4 + 8);
  }
  EXPECT_EQ(CountOpenFds(), fds);
}

TEST(QueueTest, JoinsAnEventLoop) {
  auto queue = MakeQueue();
  auto other = std::make_optional(Another(queue));
  TENON_ASSERT_OK_AND_ASSIGN(const int fd, queue.PollFd());
  const auto is_readable = [fd] {
    pollfd polled = {fd, POLLIN, 0};
    return poll(&polled, 1, 0) == 1;
  };
  EXPECT_THAT(queue.Arm(), IsOkAndHolds(true));
  EXPECT_FALSE(is_readable());
  ASSERT_THAT(other->Put(1, kNow), IsOk());
  EXPECT_TRUE(is_readable());
  queue.Disarm();
  EXPECT_FALSE(is_readable());
  EXPECT_THAT(queue.Arm(), IsOkAndHolds(false));
  EXPECT_THAT(queue.Get(kNow), IsOkAndHolds(1u));
  EXPECT_THAT(queue.Get(kNow), StatusIs(kDeadlineExceeded));
  EXPECT_THAT(queue.Arm(), IsOkAndHolds(true));
  other.reset();
  EXPECT_TRUE(is_readable());
  queue.Disarm();
  EXPECT_THAT(queue.Get(kNow), StatusIs(kUnavailable));
}

TEST(QueueTest, AForkedChildOpensItsOwn) {
  auto queue = MakeQueue();
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue.Share());
  ASSERT_TRUE(PassesInChild([&] {
    EXPECT_THAT(queue.Put(1, kNow), StatusIs(kFailedPrecondition));
    EXPECT_THAT(queue.Get(kNow), StatusIs(kFailedPrecondition));
    auto mine = Queue<uint64_t>::Open(std::move(handle));
    ASSERT_THAT(mine, IsOk());
    EXPECT_THAT(mine->Put(2, kNow), IsOk());
  }));
  EXPECT_THAT(queue.Get(Soon()), IsOkAndHolds(2u));
  // The child left when it ended.
  EXPECT_THAT(queue.Get(Soon()), StatusIs(kUnavailable));
}

TEST(QueueTest, IsOpenedAsWhatItIs) {
  auto queue = MakeQueue();
  const auto open = [&](auto change) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(QueueHandle handle, queue.Share());
    change(handle);
    return Queue<uint64_t>::Open(std::move(handle)).status();
  };
  EXPECT_THAT(open([](QueueHandle&) {}), IsOk());
  EXPECT_THAT(open([](QueueHandle& h) { h.bytes.clear(); }),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(open([](QueueHandle& h) { h.bytes[0] = 'x'; }),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(open([](QueueHandle& h) { h.bytes[8] = 9; }),
              StatusIs(kFailedPrecondition, HasSubstr("version 9")));
  EXPECT_THAT(open([](QueueHandle& h) { h.bytes.pop_back(); }),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(open([](QueueHandle& h) { h.bytes[24] = 5; }),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(open([](QueueHandle& h) { h.fds.pop_back(); }),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(open([](QueueHandle& h) { std::swap(h.fds[0], h.fds[1]); }),
              StatusIs(kInvalidArgument));
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue.Share());
  EXPECT_THAT(Queue<uint32_t>::Open(std::move(handle)),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(Queue<uint64_t>::Create({.capacity = 0}),
              StatusIs(kInvalidArgument));
  EXPECT_THAT(Queue<uint64_t>::Create({.max_participants = 65}),
              StatusIs(kInvalidArgument));
}

}  // namespace
}  // namespace tenon
