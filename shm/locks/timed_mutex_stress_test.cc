// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TimedMutex on real processors: many, as each is revoked once in its life.
// Optimised: otherwise the owner's store has always left the processor before
// its next load, and the test would pass without the fence.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {
namespace {

constexpr auto kLong = absl::Seconds(30);

// Without the fence two threads hold some of them at once.
constexpr size_t kMutexes = 50'000;
// On a busy machine a mutex takes milliseconds: fewer suffice then.
constexpr absl::Duration kEnough = absl::Seconds(3);

// There may be one core only.
void Await(const std::atomic<bool>& flag) {
  for (int turn = 0; !flag.load(std::memory_order_acquire); ++turn) {
    if (turn > 10'000) std::this_thread::yield();
  }
}

TEST(TimedMutexBiasTest, ExcludesTheFirstThreadWhereverItIs) {
  struct alignas(64) Round {
    TimedMutex mutex;
    uint64_t count = 0;  // Guarded by `mutex`.
    std::atomic<bool> begun = false, ended = false;
  };
  std::vector<Round> rounds(kMutexes);
  const Deadline enough = Deadline::After(kEnough);
  const Deadline late = Deadline::After(kLong);
  std::atomic<size_t> left = kMutexes;
  uint64_t counted = 0;
  std::thread first([&] {
    for (size_t i = 0; i < left; ++i) {
      Round& round = rounds[i];
      do {
        const TimedMutexLock lock(&round.mutex, late);
        ASSERT_TRUE(lock.held());
        ++round.count;
        ++counted;
        round.begun.store(true, std::memory_order_release);
      } while (!round.ended.load(std::memory_order_acquire));
    }
  });
  std::minstd_rand random(7);
  uint64_t had = 0, disturbed = 0;
  for (size_t i = 0; i < left; ++i) {
    Round& round = rounds[i];
    Await(round.begun);
    if (enough.has_passed()) left = i + 1;
    for (uint64_t n = random() % 64; n > 0; --n) StdAtomics::Pause();
    {
      const TimedMutexLock lock(&round.mutex, late);
      ASSERT_TRUE(lock.held());
      const uint64_t before = ++round.count;
      for (int n = 0; n < 20; ++n) {
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (round.count != before) ++disturbed;
      }
    }
    round.ended.store(true, std::memory_order_release);
    ++had;
  }
  first.join();
  RecordProperty("mutexes", static_cast<int>(left));
  EXPECT_EQ(disturbed, 0u);
  uint64_t sum = 0;
  for (const Round& round : rounds) sum += round.count;
  EXPECT_EQ(sum, had + counted);
}

TEST(TimedMutexBiasTest, ExcludesAllWithAnyDeadline) {
  constexpr size_t kThreads = 6, kFew = 20'000;
  struct Round {
    TimedMutex mutex;
    std::array<uint64_t, kThreads> had = {};  // Guarded by `mutex`.
    uint64_t sum = 0;                         // Guarded by `mutex`.
  };
  std::vector<Round> rounds(kFew);
  const Deadline enough = Deadline::After(kEnough);
  std::vector<std::thread> threads;
  for (size_t me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      std::minstd_rand random(static_cast<unsigned>(me) + 1);
      for (Round& round : rounds) {
        if (enough.has_passed()) return;
        for (uint64_t n = 1 + random() % 8; n > 0; --n) {
          const uint64_t kind = random() % 4;
          const Deadline deadline =
              kind == 0   ? Deadline::After(kLong)
              : kind == 1 ? Deadline::After(absl::Microseconds(random() % 50))
                          : Deadline::Passed();
          const TimedMutexLock lock(&round.mutex, deadline);
          ASSERT_TRUE(lock.held() || kind != 0);
          if (!lock.held()) continue;
          ++round.had[me];
          ++round.sum;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Round& round : rounds) {
    uint64_t had = 0;
    for (const uint64_t n : round.had) had += n;
    ASSERT_EQ(round.sum, had);
  }
}

}  // namespace
}  // namespace tenon
