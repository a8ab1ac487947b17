// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/sample_threads.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::testing::Each;
using ::testing::Lt;

TEST(SampleThreadsTest, EachCallIsMadeOnceAndItsWritesAreSeen) {
  for (const int size : {2, 3, 5}) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto threads, SampleThreads::Create(size));
    EXPECT_EQ(threads->size(), size);
    for (const int64_t count : {0, 1, 2, 7, 1000, 3}) {
      std::vector<int> calls(static_cast<size_t>(count));
      threads->ForEach(count, [&](int64_t i) {
        if (i % 7 == 0) absl::SleepFor(absl::Microseconds(50));
        ++calls[static_cast<size_t>(i)];
      });
      EXPECT_THAT(calls, Each(1)) << size << " threads, " << count;
    }
  }
}

// Each call waits until all others have begun.
TEST(SampleThreadsTest, CallsAreMadeAtTheSameTime) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto threads, SampleThreads::Create(3));
  for (int round = 0; round < 3; ++round) {
    const Deadline watchdog = Deadline::After(absl::Seconds(60));
    std::atomic<int> begun = 0;
    std::vector<std::thread::id> ids(3);
    threads->ForEach(3, [&](int64_t i) {
      ids[static_cast<size_t>(i)] = std::this_thread::get_id();
      ++begun;
      while (begun < 3 && !watchdog.has_passed()) std::this_thread::yield();
    });
    EXPECT_EQ(begun, 3);
    EXPECT_NE(ids[0], ids[1]);
    EXPECT_NE(ids[0], ids[2]);
    EXPECT_NE(ids[1], ids[2]);
  }
}

// A call begins when all before it have begun.
TEST(SampleThreadsTest, CallsBeginInTheirOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto threads, SampleThreads::Create(4));
  std::atomic<int64_t> begun = 0;
  std::vector<int64_t> before(200);
  threads->ForEach(200, [&](int64_t i) {
    before[static_cast<size_t>(i)] = begun++;
    absl::SleepFor(absl::Microseconds(i % 5 * 20));
  });
  // The other threads may have taken a call each, and not counted it yet.
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_THAT(before[i] - static_cast<int64_t>(i), Lt(4));
    EXPECT_THAT(static_cast<int64_t>(i) - before[i], Lt(4));
  }
}

TEST(SampleThreadsTest, AllHaveTheWorkerInfoOfTheCaller) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto threads, SampleThreads::Create(3));
  const auto index_seen = [&] {
    const Deadline watchdog = Deadline::After(absl::Seconds(60));
    std::atomic<int> begun = 0;
    std::vector<int> seen(3);
    threads->ForEach(3, [&](int64_t i) {
      const auto info = GetWorkerInfo();
      seen[static_cast<size_t>(i)] = info ? info->index : -1;
      ++begun;
      while (begun < 3 && !watchdog.has_passed()) std::this_thread::yield();
    });
    return seen;
  };
  EXPECT_THAT(index_seen(), Each(-1));
  {
    const ScopedWorkerInfo info({.index = 5});
    EXPECT_THAT(index_seen(), Each(5));
  }
  EXPECT_THAT(index_seen(), Each(-1));
}

TEST(SampleThreadsTest, TheThreadsEndWithIt) {
  const int before = CountThreads();
  {
    TENON_ASSERT_OK_AND_ASSIGN(const auto threads, SampleThreads::Create(4));
    EXPECT_EQ(CountThreads(), before + 3);
    threads->ForEach(10, [](int64_t) {});
  }
  // A thread that has been joined may be counted for a moment.
  EXPECT_TRUE(Becomes([&] { return CountThreads() == before; }));
}

}  // namespace
}  // namespace tenon::loader
