// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Queues whose participants join and leave, die with items in their rings, and
// are at their limit of descriptors: a new participant always finds a slot, and
// a sleeper is always woken.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
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
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/crash_watch.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

using Numbers = Queue<uint64_t>;
using ::testing::HasSubstr;

Deadline Soon() { return Deadline::After(absl::Seconds(15)); }

class QueueLivesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto queue = Numbers::Create({.capacity = 2, .max_participants = 4});
    ASSERT_THAT(queue, IsOk());
    queue_.emplace(*std::move(queue));
  }

  // A process that has a handle, and has not joined.
  ForkedChild WithHandle(const std::function<void(QueueHandle)>& body,
                         absl::Duration watchdog = absl::Seconds(20)) {
    QueueHandle handle = queue_->Share().value();
    return ForkedChild::Fork({.name = "other", .watchdog = watchdog},
                             [&](const Reporter&) { body(std::move(handle)); })
        .value();
  }

  // A participant that puts `item` and is killed.
  void PutAndDie(uint64_t item) {
    const uint64_t before = queue_->size();
    ForkedChild putter = WithHandle([&](QueueHandle handle) {
      auto mine = Numbers::Open(std::move(handle));
      ASSERT_THAT(mine, IsOk());
      ASSERT_THAT(mine->Put(item, Soon()), IsOk());
      for (;;) pause();
    });
    ASSERT_TRUE(Becomes([&] { return queue_->size() == before + 1; }));
    putter.Kill();
  }

  std::optional<Numbers> queue_;
};

// ---- Slots of the dead ----

TEST_F(QueueLivesTest, AGetterJoinsWhereTheDeadHaveAllSlots) {
  for (uint64_t item = 0; item < 3; ++item) PutAndDie(item);
  ForkedChild getter = WithHandle([](QueueHandle handle) {
    auto mine = Numbers::Open(std::move(handle));
    ASSERT_THAT(mine, IsOk());
    std::set<uint64_t> got;
    for (int i = 0; i < 3; ++i) {
      const auto item = mine->Get(Soon());
      ASSERT_THAT(item, IsOk());
      got.insert(*item);
    }
    EXPECT_THAT(got, testing::ElementsAre(0, 1, 2));
    // Its own items come after the inherited ones.
    EXPECT_THAT(mine->Put(7, Soon()), IsOk());
  });
  EXPECT_TRUE(getter.EndsWell());
  EXPECT_THAT(queue_->Get(Soon()), IsOkAndHolds(7u));
}

// A ring is inherited: its items come first, and take part of its capacity.
TEST_F(QueueLivesTest, AFullRingOfTheDeadIsInherited) {
  for (uint64_t item = 0; item < 3; ++item) PutAndDie(item);
  auto next = Numbers::Open(queue_->Share().value());
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->own_size(), 1u);
  EXPECT_THAT(next->TryPut(10), IsOkAndHolds(true));
  EXPECT_THAT(next->TryPut(11), IsOkAndHolds(false));
  EXPECT_THAT(queue_->Drain(), IsOkAndHolds(4u));
  EXPECT_THAT(next->TryPut(11), IsOkAndHolds(true));
}

TEST_F(QueueLivesTest, TheLivingKeepTheirSlots) {
  std::vector<Numbers> living;
  for (int i = 0; i < 3; ++i) {
    auto mine = Numbers::Open(queue_->Share().value());
    ASSERT_THAT(mine, IsOk());
    living.push_back(*std::move(mine));
  }
  EXPECT_THAT(Numbers::Open(queue_->Share().value()),
              StatusIs(kResourceExhausted, HasSubstr("4")));
}

// Whether the holder of a slot has died is learnt from its descriptors. What
// cannot be known is not said.
TEST_F(QueueLivesTest, AtTheLimitOfDescriptorsTheDeadAreNotTakenForAlive) {
  for (uint64_t item = 0; item < 3; ++item) PutAndDie(item);
  QueueHandle handle = queue_->Share().value();
  int failed = 0;
  for (absl::Status opened = absl::UnknownError(""); !opened.ok(); ++failed) {
    ASSERT_LT(failed, 50);
    {
      const FewFds few(static_cast<rlim_t>(failed));
      opened = Numbers::Open(std::move(handle)).status();
    }
    if (opened.ok()) break;
    EXPECT_THAT(opened,
                StatusIs(kResourceExhausted, HasSubstr("RLIMIT_NOFILE")))
        << "with " << failed;
  }
  EXPECT_GT(failed, 4);
}

// Producers and consumers are killed and replaced, and there are no more slots
// than participants.
TEST_F(QueueLivesTest, KilledAndReplacedItNeverFillsUp) {
  constexpr size_t kCrew = 3;  // One consumer.
  SharedObject<std::atomic<uint64_t>> joined;
  SharedObject<std::atomic<bool>> pause_consumer;
  const auto start = [&](size_t role) {
    return WithHandle([&, role](QueueHandle handle) {
      auto mine = Numbers::Open(std::move(handle));
      ASSERT_THAT(mine, IsOk());
      ++*joined;
      for (uint64_t i = 0;; ++i) {
        if (role != 0) {
          ASSERT_THAT(mine->Put(i, Deadline::Never()), IsOk());
        } else if (*pause_consumer) {
          pause();
        } else {
          ASSERT_THAT(mine->Get(Deadline::Never()), IsOk());
        }
      }
    });
  };
  std::vector<ForkedChild> crew;
  for (size_t i = 0; i < kCrew; ++i) crew.push_back(start(i));
  for (int round = 0; round < 60; ++round) {
    const size_t victim = static_cast<size_t>(round) % kCrew;
    // In every other round all rings are full of items of the dead.
    *pause_consumer = round % 2 == 0;
    crew[victim].Kill();
    EXPECT_TRUE(crew[victim].report().failures.empty())
        << crew[victim].report().failures.front();
    const uint64_t before = *joined;
    crew[victim] = start(victim);
    ASSERT_TRUE(Becomes(
        [&] { return *joined > before || crew[victim].pid_fd().HasEnded(); }));
    ASSERT_GT(*joined, before) << "no slot in round " << round;
  }
  crew.clear();
  EXPECT_THAT(queue_->Drain(), IsOk());
  EXPECT_TRUE(queue_->empty());
}

// Runs in a pid namespace of its own: process 2 there, which `body` ends.
void RunInPidNamespace(const std::function<void()>& body) {
  const pid_t init = fork();
  if (init != 0) {
    waitpid(init, nullptr, 0);
    return;
  }
  const pid_t child = fork();
  if (child == 0) body();
  if (child > 0) waitpid(child, nullptr, 0);
  _exit(0);
}

// It is killed while it joins; its number is invalid here.
TEST_F(QueueLivesTest, AJoinerKilledInAnotherPidNamespaceKeepsNothing) {
  PassingCounts counts;
  SharedObject<std::atomic<bool>> may;
  for (uint64_t i = 1; i <= 3; ++i) {
    ForkedChild joiner = WithHandle([&](QueueHandle handle) {
      if (unshare(CLONE_NEWPID) != 0) return;
      *may = true;
      RunInPidNamespace([&] {
        const CrashWatch watch(counts,
                               {{.point = "queue.slot_claimed", .passing = i}});
        Numbers::Open(std::move(handle)).status().IgnoreError();
      });
    });
    ASSERT_TRUE(joiner.EndsWell());
    if (!*may) GTEST_SKIP() << "needs CAP_SYS_ADMIN for a pid namespace";
    ASSERT_EQ(counts.of("queue.slot_claimed"), i);
  }
  EXPECT_THAT(Numbers::Open(queue_->Share().value()), IsOk());
}

// ---- Alone ----

TEST(QueueAloneTest, AConsumerWaitsForTheNextProducer) {
  std::vector<QueueHandle> handles;
  {
    auto queue = Numbers::Create({.wait_when_alone = true});
    ASSERT_THAT(queue, IsOk());
    for (int i = 0; i < 3; ++i) handles.push_back(queue->Share().value());
  }
  SharedObject<std::atomic<uint64_t>> got;
  ForkedChild consumer =
      ForkedChild::Fork({.name = "consumer"}, [&](const Reporter&) {
        auto mine = Numbers::Open(std::move(handles[2]));
        ASSERT_THAT(mine, IsOk());
        for (uint64_t i = 1; i <= 2; ++i) {
          EXPECT_THAT(mine->Get(Deadline::Never()), IsOkAndHolds(i));
          *got = i;
        }
        EXPECT_THAT(mine->Get(Deadline::After(absl::Milliseconds(1))),
                    StatusIs(absl::StatusCode::kDeadlineExceeded));
      }).value();
  for (uint64_t i = 1; i <= 2; ++i) {
    ForkedChild producer =
        ForkedChild::Fork({.name = "producer"}, [&](const Reporter&) {
          auto mine = Numbers::Open(std::move(handles[i - 1]));
          ASSERT_THAT(mine, IsOk());
          ASSERT_THAT(mine->Put(i, Soon()), IsOk());
          for (;;) pause();
        }).value();
    ASSERT_TRUE(Becomes([&] { return *got == i; }));
    producer.Kill();
  }
  EXPECT_TRUE(consumer.EndsWell());
}

// ---- At the limit of descriptors ----

// A process that joins, sleeps in Get(), says so, and expects `status`.
void SleepUntil(QueueHandle handle, std::atomic<bool>& asleep,
                absl::StatusCode code) {
  auto mine = Numbers::Open(std::move(handle));
  ASSERT_THAT(mine, IsOk());
  std::thread watch(
      [&] { asleep = Becomes([&] { return mine->stats().get_asleep; }); });
  EXPECT_EQ(mine->Get(Deadline::Never()).status().code(), code);
  watch.join();
}

// Stays alive: a death would wake the others.
[[noreturn]] void LiveOn() {
  for (;;) pause();
}
constexpr absl::Duration kLong = absl::Minutes(1);  // Longer than a sleeper's.

struct Board {
  std::atomic<bool> ready{false};
  std::atomic<bool> may_join{false};
  std::atomic<bool> asleep{false};
};

TEST_F(QueueLivesTest, CloseWakesAParticipantThatCannotBeMet) {
  SharedObject<Board> board;
  ForkedChild closer = WithHandle(
      [&](QueueHandle handle) {
        auto mine = Numbers::Open(std::move(handle));
        ASSERT_THAT(mine, IsOk());
        const FewFds at_the_limit;
        board->ready = true;
        ASSERT_TRUE(Becomes([&] { return board->asleep.load(); }));
        EXPECT_THAT(mine->Close(), IsOk());
        LiveOn();
      },
      kLong);
  ASSERT_TRUE(Becomes([&] { return board->ready.load(); }));
  ForkedChild sleeper = WithHandle([&](QueueHandle handle) {
    SleepUntil(std::move(handle), board->asleep, absl::StatusCode::kOutOfRange);
  });
  EXPECT_TRUE(sleeper.EndsWell());
  EXPECT_TRUE(closer.report().failures.empty())
      << closer.report().failures.front();
}

TEST_F(QueueLivesTest, LeavingWakesAParticipantThatCannotBeMet) {
  SharedObject<Board> board;
  ForkedChild leaver = WithHandle(
      [&](QueueHandle handle) {
        std::optional<FewFds> at_the_limit;
        {
          auto mine = Numbers::Open(std::move(handle));
          ASSERT_THAT(mine, IsOk());
          at_the_limit.emplace();
          board->ready = true;
          ASSERT_TRUE(Becomes([&] { return board->asleep.load(); }));
        }
        LiveOn();
      },
      kLong);
  ASSERT_TRUE(Becomes([&] { return board->ready.load(); }));
  ForkedChild sleeper = WithHandle([&](QueueHandle handle) {
    ASSERT_TRUE(Becomes([&] { return board->may_join.load(); }));
    SleepUntil(std::move(handle), board->asleep, kUnavailable);
  });
  queue_.reset();
  board->may_join = true;
  EXPECT_TRUE(sleeper.EndsWell());
  EXPECT_TRUE(leaver.report().failures.empty())
      << leaver.report().failures.front();
}

TEST_F(QueueLivesTest, PutWakesAParticipantThatJoinedInBetween) {
  SharedObject<Board> board;
  ForkedChild sleeper = WithHandle([&](QueueHandle handle) {
    ASSERT_TRUE(Becomes([&] { return board->may_join.load(); }));
    SleepUntil(std::move(handle), board->asleep, absl::StatusCode::kOk);
  });
  ForkedChild putter = WithHandle(
      [&](QueueHandle handle) {
        auto mine = Numbers::Open(std::move(handle));
        ASSERT_THAT(mine, IsOk());
        PassingCounts counts;
        const CrashWatch watch(
            counts, {{.point = "queue.written",
                      .action = CrashAction::kCall,
                      .call = [&] {
                        board->may_join = true;
                        Becomes([&] { return board->asleep.load(); });
                      }}});
        const FewFds at_the_limit;
        EXPECT_THAT(mine->Put(1, Soon()), IsOk());
        LiveOn();
      },
      kLong);
  EXPECT_TRUE(sleeper.EndsWell());
  EXPECT_TRUE(putter.report().failures.empty())
      << putter.report().failures.front();
}

// ---- Handles ----

TEST_F(QueueLivesTest, AHandleThatCannotBeOpenedNowCanBeOpenedLater) {
  QueueHandle handle = queue_->Share().value();
  {
    const FewFds at_the_limit;
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(Numbers::Open(std::move(handle)),
                  StatusIs(kResourceExhausted));
    }
  }
  // First there is no free slot, then there is one.
  std::vector<Numbers> living;
  for (int i = 0; i < 3; ++i) {
    auto mine = Numbers::Open(queue_->Share().value());
    ASSERT_THAT(mine, IsOk());
    living.push_back(*std::move(mine));
  }
  const size_t fds = CountOpenFds();
  EXPECT_THAT(Numbers::Open(std::move(handle)), StatusIs(kResourceExhausted));
  EXPECT_EQ(CountOpenFds(), fds);
  living.pop_back();
  auto mine = Numbers::Open(std::move(handle));
  ASSERT_THAT(mine, IsOk());
  EXPECT_THAT(mine->Put(1, Soon()), IsOk());
  EXPECT_THAT(queue_->Get(Soon()), IsOkAndHolds(1u));
}

// ---- Beside a waiting thread ----

TEST_F(QueueLivesTest, NoCallWaitsForAThreadThatGets) {
  ForkedChild child = WithHandle([](QueueHandle handle) {
    auto other = Numbers::Open(std::move(handle));
    ASSERT_THAT(other, IsOk());
    auto mine = Numbers::Open(other->Share().value());
    ASSERT_THAT(mine, IsOk());
    std::thread gets(
        [&] { EXPECT_THAT(mine->Get(Deadline::Never()), IsOkAndHolds(1u)); });
    ASSERT_TRUE(Becomes([&] { return mine->stats().get_asleep; }));
    constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
    EXPECT_THAT(mine->PollFd(), StatusIs(kFailedPrecondition));
    EXPECT_THAT(mine->Arm(), StatusIs(kFailedPrecondition));
    mine->Disarm();
    EXPECT_THAT(mine->Drain(), IsOkAndHolds(0u));
    // It sleeps as before.
    EXPECT_THAT(other->Put(1, Soon()), IsOk());
    gets.join();
  });
  EXPECT_TRUE(child.EndsWell());
}

}  // namespace
}  // namespace tenon
