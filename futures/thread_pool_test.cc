// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/thread_pool.h"

#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/async.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kWatchdog = absl::Minutes(1);

std::unique_ptr<ThreadPool> Pool(int threads) {
  return *ThreadPool::Create(threads);
}

TEST(ThreadPoolTest, ThereMustBeAThread) {
  EXPECT_THAT(ThreadPool::Create(0),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ThreadPool::Create(-1),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ThreadPoolTest, WhereThereIsNoRoomForThreadsThatIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need more addresses than this test leaves";
#endif
  EXPECT_TRUE(PassesInChild([] {
    const rlimit limit = {.rlim_cur = 256 << 20, .rlim_max = 256 << 20};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);  // Stacks take 8 MiB each.
    EXPECT_THAT(ThreadPool::Create(1'000),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr("of 1000 threads")));
  }));
}

TEST(ThreadPoolTest, CallbacksRunOnItsThreadsAndAllOfThem) {
  constexpr int kPoolThreads = 3;
  const std::unique_ptr<ThreadPool> pool = Pool(kPoolThreads);
  // Each waits until all have begun: no thread can run two of them.
  std::atomic<int> there = 0;
  std::mutex mutex;
  std::set<std::thread::id> ids;
  std::vector<Future<void>> futures;
  for (int i = 0; i < kPoolThreads; ++i) {
    futures.push_back(Async(*pool, [&] {
      ++there;
      while (there.load() < kPoolThreads) std::this_thread::yield();
      const std::lock_guard<std::mutex> lock(mutex);
      ids.insert(std::this_thread::get_id());
    }));
  }
  for (const Future<void>& future : futures) {
    ASSERT_THAT(future.Wait(kWatchdog), IsOk());
  }
  EXPECT_EQ(ids.size(), 3U);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 0U);
}

TEST(ThreadPoolTest, OneThreadKeepsTheOrder) {
  std::vector<int> calls;
  {
    const std::unique_ptr<ThreadPool> pool = Pool(1);
    for (int i = 0; i < 1'000; ++i) {
      pool->Execute(Task([&calls, i] { calls.push_back(i); }));
    }
  }
  ASSERT_EQ(calls.size(), 1'000U);
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(calls[i], i);
}

TEST(ThreadPoolTest, ItsEndWaitsForTasksAndForThoseTheyGive) {
  std::atomic<int> calls = 0;
  for (int round = 0; round < 100; ++round) {
    const std::unique_ptr<ThreadPool> pool = Pool(2);
    for (int i = 0; i < 4; ++i) {
      pool->Execute(Task([&calls, &pool = *pool] {
        std::this_thread::yield();
        pool.Execute(Task([&calls] { ++calls; }));
      }));
    }
  }
  EXPECT_EQ(calls.load(), 400);
}

TEST(ThreadPoolTest, AbortDropsWhatHasNotBegun) {
  Promise<void> entered, leave;
  Future<void> has_entered = entered.future(), may_leave = leave.future();
  std::unique_ptr<ThreadPool> pool = Pool(1);
  Future<int> begun = Async(*pool, [&] {
    entered.SetValue().IgnoreError();
    EXPECT_THAT(may_leave.Wait(kWatchdog), IsOk());
    return 1;
  });
  ASSERT_THAT(has_entered.Wait(kWatchdog), IsOk());
  Future<int> waiting = Async(*pool, [] { return 2; });
  pool->Abort();
  EXPECT_THAT(waiting.value(), StatusIs(absl::StatusCode::kAborted));
  Future<int> late = Async(*pool, [] { return 3; });
  EXPECT_THAT(late.value(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_FALSE(begun.done());
  ASSERT_THAT(leave.SetValue(), IsOk());
  pool.reset();
  EXPECT_THAT(begun.value(), IsOkAndHolds(1));
}

TEST(ThreadPoolTest, ChainsCrossBetweenPools) {
  const std::unique_ptr<ThreadPool> one = Pool(2), two = Pool(2);
  for (int round = 0; round < 200; ++round) {
    Promise<int> promise;
    Future<int> last = promise.future();
    int plain = 0;  // Ordered only by the futures.
    for (int i = 0; i < 10; ++i) {
      last = std::move(last).Then(i % 2 == 0 ? *one : *two,
                                  [&plain](const absl::StatusOr<int>& value) {
                                    ++plain;
                                    return *value + 1;
                                  });
    }
    ASSERT_THAT(promise.SetValue(0), IsOk());
    ASSERT_THAT(last.Wait(kWatchdog), IsOk());
    EXPECT_THAT(last.value(), IsOkAndHolds(10));
    EXPECT_EQ(plain, 10);
  }
}

TEST(ThreadPoolTest, ManyThreadsGiveTasksAtOnce) {
  std::atomic<int> calls = 0;
  {
    const std::unique_ptr<ThreadPool> pool = Pool(2);
    std::vector<std::thread> givers;
    for (int t = 0; t < 4; ++t) {
      givers.emplace_back([&] {
        for (int i = 0; i < 500; ++i) pool->Execute(Task([&] { ++calls; }));
      });
    }
    for (std::thread& giver : givers) giver.join();
  }
  EXPECT_EQ(calls.load(), 2'000);
}

// The last owner of the pool is one of its tasks, and destroys it.
TEST(ThreadPoolTest, ItsOwnTaskMayBeItsLastOwner) {
  for (const int threads : {1, 3}) {
    std::atomic<int> calls = 0;
    Promise<void> destroyed, begin;
    Future<void> is_destroyed = destroyed.future(), may_begin = begin.future();
    std::shared_ptr<ThreadPool> pool = Pool(threads);
    ThreadPool& executor = *pool;
    executor.Execute(Task([&, pool]() mutable {
      EXPECT_THAT(may_begin.Wait(kWatchdog), IsOk());
      pool.reset();
      EXPECT_EQ(calls.load(), 20);  // Tasks submitted by tasks, too.
      destroyed.SetValue().IgnoreError();
    }));
    for (int i = 0; i < 10; ++i) {
      executor.Execute(Task([&] {
        ++calls;
        executor.Execute(Task([&] { ++calls; }));
      }));
    }
    pool.reset();
    ASSERT_THAT(begin.SetValue(), IsOk());
    ASSERT_THAT(is_destroyed.Wait(kWatchdog), IsOk());
    EXPECT_EQ(calls.load(), 20);
  }
}

}  // namespace
}  // namespace tenon::futures
