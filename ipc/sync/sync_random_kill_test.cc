// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Many processes that use a Mutex, a Semaphore, a Condition or a Barrier at
// full speed; some are killed or stopped at random moments, and replaced. How
// often: TENON_RANDOM_KILLS in the environment.

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/barrier.h"
#include "tenon/ipc/sync/condition.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/sync/semaphore.h"
#include "tenon/ipc/sync/sync_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

uint64_t Kills() {
  const char* text = std::getenv("TENON_RANDOM_KILLS");
  return text == nullptr ? 300 : std::strtoull(text, nullptr, 10);
}

struct Board {
  std::atomic<bool> done{false};
  std::atomic<uint64_t> rounds{0};    // Completed.
  std::atomic<uint64_t> repaired{0};  // Deaths that were reported to a process.
  std::atomic<uint64_t> released{0}, acquired{0};
  // Guarded by the mutex.
  uint64_t first = 0, second = 0;
  int items = 0;
};

class SyncRandomKillTest : public testing::Test {
 protected:
  using Body = std::function<void(size_t)>;

  void Start(size_t count, Body body) {
    body_ = std::move(body);
    for (size_t i = 0; i < count; ++i) crew_.push_back(Fork(i));
  }

  ForkedChild Fork(size_t i) {
    return ForkedChild::Fork({.name = "worker", .watchdog = absl::Minutes(4)},
                             [this, i](const Reporter&) { body_(i); })
        .value();
  }

  // Calls `replaced` after a killed process was replaced.
  void KillAtRandom(const std::function<void()>& replaced = [] {}) {
    std::mt19937_64 random(20240607);
    for (uint64_t i = 0; i < Kills(); ++i) {
      const uint64_t before = board_->rounds;
      absl::SleepFor(absl::Microseconds(random() % 3000));
      const size_t victim = random() % crew_.size();
      if (random() % 4 == 0) {
        const pid_t stopped = crew_[(victim + 1) % crew_.size()].pid();
        kill(stopped, SIGSTOP);
        absl::SleepFor(absl::Microseconds(random() % 2000));
        crew_[victim].Kill();
        kill(stopped, SIGCONT);
      } else {
        crew_[victim].Kill();
      }
      EXPECT_TRUE(crew_[victim].report().failures.empty())
          << crew_[victim].report().failures.front();
      crew_[victim] = Fork(victim);
      replaced();
      const Deadline deadline = Watchdog();
      while (board_->rounds == before) {
        ASSERT_FALSE(deadline.has_passed()) << "nobody goes on";
        absl::SleepFor(absl::Microseconds(100));
      }
    }
  }

  void End() {
    for (ForkedChild& child : crew_) EXPECT_TRUE(child.EndsWell());
    std::cout << Kills() << " killed, " << board_->rounds << " rounds, told of "
              << board_->repaired << " deaths\n";
  }

  SharedObject<Board> board_;
  Body body_;
  std::vector<ForkedChild> crew_;
};

TEST_F(SyncRandomKillTest, Mutex64) {
  const Mutex mutex = Mutex::Create().value();
  Start(64, [&](size_t i) {
    const Mutex mine = Another(mutex);
    while (!board_->done) {
      auto guard = mine.Lock(i % 2 == 0 ? Watchdog() : Deadline::Never());
      ASSERT_THAT(guard, IsOk());
      if (guard->owner_died()) {
        ++board_->repaired;
        board_->second = board_->first;
        ASSERT_THAT(guard->MakeConsistent(), IsOk());
      }
      EXPECT_EQ(board_->first, board_->second);
      ++board_->first;
      ++board_->second;
      ++board_->rounds;
    }
  });
  KillAtRandom();
  board_->done = true;
  End();
}

// Only killed processes lose units, at most one each.
TEST_F(SyncRandomKillTest, Semaphore16) {
  constexpr size_t kWorkers = 16;
  const Semaphore semaphore = Semaphore::Create(0).value();
  Start(kWorkers, [&](size_t i) {
    const Semaphore mine = Another(semaphore);
    while (!board_->done) {
      if (i < kWorkers / 2) {
        ASSERT_THAT(mine.Acquire(Watchdog()), IsOk());
        ++board_->acquired;
        ++board_->rounds;
      } else {
        ++board_->released;
        ASSERT_THAT(mine.Release(), IsOk());
        if (mine.GetValue().value() > 100) absl::SleepFor(absl::ZeroDuration());
      }
    }
  });
  KillAtRandom();
  board_->done = true;
  EXPECT_THAT(semaphore.Release(kWorkers), IsOk());
  End();
  const uint64_t there = semaphore.GetValue().value() + board_->acquired;
  const uint64_t given = board_->released + kWorkers;
  EXPECT_LE(there, given);
  EXPECT_GE(there + Kills(), given);
}

// A queue of up to two items between givers and takers.
TEST_F(SyncRandomKillTest, Condition16) {
  const Mutex mutex = Mutex::Create().value();
  const Condition condition = Condition::Create().value();
  Start(16, [&](size_t i) {
    const Mutex mine = Another(mutex);
    const Condition changed = Another(condition);
    const bool giver = i % 2 == 0;
    while (!board_->done) {
      auto guard = mine.Lock(Watchdog());
      ASSERT_THAT(guard, IsOk());
      if (!guard->owner_died()) {
        const absl::Status waited = changed.WaitFor(
            *guard,
            [&] {
              return board_->done ||
                     (giver ? board_->items < 2 : board_->items > 0);
            },
            Watchdog());
        if (!guard->owner_died()) {
          ASSERT_THAT(waited, IsOk());
        }
      }
      if (guard->owner_died()) {
        ++board_->repaired;
        ASSERT_THAT(guard->MakeConsistent(), IsOk());
        // The victim may have changed the data without a notification.
        ASSERT_THAT(changed.NotifyAll(*guard), IsOk());
        continue;
      }
      if (board_->done) break;
      board_->items += giver ? 1 : -1;
      ++board_->rounds;
      ASSERT_THAT(changed.NotifyAll(*guard), IsOk());
    }
  });
  KillAtRandom();
  {
    auto guard = mutex.Lock(Watchdog());
    ASSERT_THAT(guard, IsOk());
    if (guard->owner_died()) {
      EXPECT_THAT(guard->MakeConsistent(), IsOk());
    }
    board_->done = true;
    EXPECT_THAT(condition.NotifyAll(*guard), IsOk());
  }
  End();
}

TEST_F(SyncRandomKillTest, Barrier8) {
  const Barrier barrier = Barrier::Create(8).value();
  Start(8, [&](size_t) {
    const Barrier mine = Another(barrier);
    const auto seat = mine.Join(Watchdog());
    ASSERT_THAT(seat, IsOk());
    while (!board_->done) {
      const auto index = seat->Wait(Watchdog());
      if (index.ok()) {
        ++board_->rounds;
      } else {
        ASSERT_THAT(index, StatusIs(absl::StatusCode::kAborted));
        absl::SleepFor(absl::Microseconds(200));
      }
    }
  });
  KillAtRandom([&] {
    ++board_->repaired;
    EXPECT_THAT(barrier.Reset(Watchdog()), IsOk());
  });
  board_->done = true;
  // Waiters are told; later calls see it broken.
  EXPECT_THAT(barrier.Abort(Watchdog()), IsOk());
  End();
}

// Some wait, one sets and clears; each set reaches the waiters, whichever
// process dies.
TEST_F(SyncRandomKillTest, Event8) {
  const Event event = Event::Create().value();
  Start(8, [&](size_t i) {
    const Event mine = Another(event);
    while (!board_->done) {
      if (i < 6) {
        ASSERT_THAT(mine.Wait(Watchdog()), IsOk());
        ++board_->rounds;
      } else {
        ASSERT_THAT(mine.Set(), IsOk());
        absl::SleepFor(absl::Microseconds(50));
        ASSERT_THAT(mine.Clear(), IsOk());
      }
    }
  });
  KillAtRandom();
  board_->done = true;
  // The processes that set and clear end first, or the others might wait again.
  const Deadline deadline = Watchdog();
  while (!deadline.has_passed()) {
    EXPECT_THAT(event.Set(), IsOk());
    absl::SleepFor(absl::Milliseconds(5));
    bool all = true;
    for (ForkedChild& child : crew_) all = all && child.pid_fd().HasEnded();
    if (all) break;
  }
  End();
}

}  // namespace
}  // namespace tenon
