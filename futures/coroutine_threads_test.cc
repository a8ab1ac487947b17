// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Coroutines that several threads run one after another.

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/async.h"
#include "tenon/futures/collect.h"
#include "tenon/futures/coroutine.h"
#include "tenon/futures/future.h"
#include "tenon/futures/thread_pool.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

constexpr absl::Duration kCoroutineWatchdog = absl::Minutes(1);

// Its local is not atomic: only the futures order the accesses.
Future<int> Loop(ThreadPool& one, ThreadPool& other, int rounds) {
  int plain = 0;
  for (int i = 0; i < rounds; ++i) {
    absl::StatusOr<int> next =
        co_await Async(i % 2 == 0 ? one : other, [i] { return i; });
    if (!next.ok()) co_return next.status();
    if (*next == i) ++plain;
    if (i % 3 == 0) co_await ResumeOn(one);
  }
  co_return plain;
}

TEST(CoroutineThreadsTest, ManyHopFromThreadToThread) {
  constexpr int kLoops = 8;
  constexpr int kHops = 300;
  const std::unique_ptr<ThreadPool> one = *ThreadPool::Create(2);
  const std::unique_ptr<ThreadPool> other = *ThreadPool::Create(2);
  std::vector<Future<int>> loops;
  for (int i = 0; i < kLoops; ++i) loops.push_back(Loop(*one, *other, kHops));
  Future<std::vector<int>> all = CollectAll(std::move(loops));
  ASSERT_THAT(all.Wait(kCoroutineWatchdog), IsOk());
  EXPECT_THAT(all.value(), IsOkAndHolds(std::vector<int>(kLoops, kHops)));
}

Future<int> PlusOne(Future<int> before) {
  const absl::StatusOr<int> value = co_await std::move(before);
  if (!value.ok()) co_return value.status();
  co_return *value + 1;
}

TEST(CoroutineThreadsTest, TheValueMayComeWhileItBeginsToWait) {
  for (int round = 0; round < 2'000; ++round) {
    Promise<int> promise;
    Future<int> future = promise.future();
    std::thread setter([&] { promise.SetValue(round).IgnoreError(); });
    Future<int> next = PlusOne(std::move(future));
    EXPECT_THAT(next.Wait(kCoroutineWatchdog), IsOk());
    EXPECT_THAT(next.value(), IsOkAndHolds(round + 1));
    setter.join();
  }
}

TEST(CoroutineThreadsTest, ARequestMayCrossWithTheWait) {
  for (int round = 0; round < 1'000; ++round) {
    Promise<int> first;
    Promise<int> second;
    const Future<int> last = PlusOne(first.future().Then(
        [&](absl::StatusOr<int>) { return second.future(); }));
    std::thread asker([&] { last.RequestCancel(); });
    first.SetValue(1).IgnoreError();
    asker.join();
    EXPECT_TRUE(second.cancel_requested());
    second.SetError(absl::CancelledError("")).IgnoreError();
    EXPECT_THAT(last.value(), StatusIs(absl::StatusCode::kCancelled));
  }
}

}  // namespace
}  // namespace tenon::futures
