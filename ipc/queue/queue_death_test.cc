// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Waiters whose peers die are told, or get their items, and continue; also if
// the dead were in another pid namespace.

#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

using Numbers = Queue<uint64_t>;

Deadline Soon() { return Deadline::After(absl::Seconds(20)); }

class QueueDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    auto queue = Numbers::Create({.capacity = 2, .max_participants = 4});
    ASSERT_THAT(queue, IsOk());
    queue_.emplace(*std::move(queue));
  }

  // A participant that runs `body`, and then waits to be killed.
  ForkedChild Other(const std::function<void(Numbers&)>& body) {
    QueueHandle handle = queue_->Share().value();
    return ForkedChild::Fork({.name = "other"},
                             [&](const Reporter&) {
                               auto mine = Numbers::Open(std::move(handle));
                               ASSERT_THAT(mine, IsOk());
                               body(*mine);
                               for (;;) pause();
                             })
        .value();
  }

  std::optional<Numbers> queue_;
};

TEST_F(QueueDeathTest, ASleeperIsToldOfTheLastDeath) {
  ForkedChild first =
      Other([](Numbers& mine) { ASSERT_THAT(mine.Put(1, Soon()), IsOk()); });
  ForkedChild second =
      Other([](Numbers& mine) { ASSERT_THAT(mine.Put(2, Soon()), IsOk()); });
  // Both have joined: their items show it.
  ASSERT_TRUE(Becomes([&] { return queue_->size() == 2; }));
  for (int i = 0; i < 2; ++i) ASSERT_THAT(queue_->Get(Soon()), IsOk());
  std::thread kills([&] {
    ASSERT_TRUE(Becomes([&] { return queue_->stats().get_asleep; }));
    first.Kill();
    absl::SleepFor(absl::Milliseconds(20));
    second.Kill();
  });
  EXPECT_THAT(queue_->Get(Deadline::Never()), StatusIs(kUnavailable));
  kills.join();
  // Not sticky.
  ForkedChild third =
      Other([](Numbers& mine) { ASSERT_THAT(mine.Put(3, Soon()), IsOk()); });
  ASSERT_TRUE(Becomes([&] { return queue_->size() == 1; }));
  EXPECT_THAT(queue_->Get(Soon()), IsOkAndHolds(3u));
}

TEST_F(QueueDeathTest, AWaiterForRoomIsToldOfTheLastDeath) {
  ForkedChild other =
      Other([](Numbers& mine) { ASSERT_THAT(mine.Get(Soon()), IsOk()); });
  ASSERT_THAT(queue_->Put(0, Soon()), IsOk());
  ASSERT_TRUE(Becomes([&] { return queue_->empty(); }));
  ASSERT_THAT(queue_->Put(1, Soon()), IsOk());
  ASSERT_THAT(queue_->Put(2, Soon()), IsOk());
  std::thread kills([&] {
    ASSERT_TRUE(Becomes([&] { return queue_->stats().put_asleep; }));
    other.Kill();
  });
  EXPECT_THAT(queue_->Put(3, Deadline::Never()), StatusIs(kUnavailable));
  kills.join();
}

// Three sleep, and all are rung; two of them are killed at that moment. The
// item does not wait for them.
TEST_F(QueueDeathTest, ItemsTheDeadWereRungForAreReceived) {
  auto putter = Numbers::Open(queue_->Share().value());
  ASSERT_THAT(putter, IsOk());
  SharedObject<std::atomic<int>> armed;
  for (uint64_t round = 0; round < 20; ++round) {
    *armed = 0;
    std::vector<ForkedChild> sleepers;
    for (int i = 0; i < 2; ++i) {
      sleepers.push_back(Other([&](Numbers& mine) {
        while (!mine.Arm().value()) mine.Disarm();
        ++*armed;
      }));
    }
    ASSERT_TRUE(Becomes([&] { return *armed == 2; }));
    std::thread gets(
        [&] { EXPECT_THAT(queue_->Get(Soon()), IsOkAndHolds(round)); });
    ASSERT_TRUE(Becomes([&] { return queue_->stats().get_asleep; }));
    EXPECT_THAT(putter->Put(round, Soon()), IsOk());
    for (ForkedChild& sleeper : sleepers) sleeper.Kill();
    gets.join();
  }
}

// The slots of the dead are reused, with items in their rings or without.
TEST_F(QueueDeathTest, SlotsOfTheDeadAreReused) {
  for (uint64_t round = 0; round < 30; ++round) {
    std::vector<ForkedChild> others;
    for (uint64_t i = 0; i < 3; ++i) {
      others.push_back(Other(
          [i](Numbers& mine) { ASSERT_THAT(mine.Put(i, Soon()), IsOk()); }));
    }
    ASSERT_TRUE(Becomes([&] { return queue_->size() == 3; }));
    for (ForkedChild& other : others) other.Kill();
    EXPECT_THAT(Numbers::Open(queue_->Share().value()), IsOk());
    EXPECT_THAT(queue_->Drain(), IsOkAndHolds(3u));
  }
}

// As in a container: the other processes have other numbers there, or none.
TEST_F(QueueDeathTest, AcrossPidNamespaces) {
  QueueHandle handle = queue_->Share().value();
  ForkedChild outer =
      ForkedChild::Fork({.name = "outer"}, [&](const Reporter& reporter) {
        auto mine = Numbers::Open(std::move(handle));
        ASSERT_THAT(mine, IsOk());
        if (unshare(CLONE_NEWPID) != 0) {
          EXPECT_THAT(mine->Put(0, Soon()), IsOk());
          return;
        }
        QueueHandle for_inner = mine->Share().value();
        const auto play = [&] {
          EXPECT_EQ(getpid(), 1);
          auto inner = Numbers::Open(std::move(for_inner));
          ASSERT_THAT(inner, IsOk());
          EXPECT_THAT(inner->Put(7, Soon()), IsOk());
          ASSERT_TRUE(Becomes([&] { return inner->own_size() == 0; }));
          EXPECT_THAT(inner->Get(Soon()), IsOkAndHolds(8u));
          // Dies without leaving.
          _exit(0);
        };
        if (!PassesInChild(play)) reporter.Fail("the inner one failed");
      }).value();
  TENON_ASSERT_OK_AND_ASSIGN(const uint64_t first, queue_->Get(Soon()));
  if (first == 0) GTEST_SKIP() << "needs CAP_SYS_ADMIN for a pid namespace";
  EXPECT_EQ(first, 7u);
  EXPECT_THAT(queue_->Put(8, Soon()), IsOk());
  ASSERT_TRUE(Becomes([&] { return queue_->own_size() == 0; }));
  // One has died, and one has left.
  EXPECT_THAT(queue_->Get(Soon()), StatusIs(kUnavailable));
  EXPECT_TRUE(outer.EndsWell());
}

}  // namespace
}  // namespace tenon
