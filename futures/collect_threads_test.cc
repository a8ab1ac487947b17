// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Collecting futures that other threads complete and cancel.

#include <chrono>
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
#include "tenon/futures/future.h"
#include "tenon/futures/thread_pool.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

using ::testing::ElementsAre;

constexpr absl::Duration kCollectWatchdog = absl::Minutes(1);
constexpr int kMembers = 16;
constexpr int kCollectRounds = 500;

// Without a message, and so without a reference count: Abseil's library counts
// references where ThreadSanitizer does not see it.
absl::Status Torn() { return absl::DataLossError(""); }

class CollectThreadsTest : public testing::Test {
 protected:
  // Members i = 0 ... that complete, on the pool's threads, with value i.
  std::vector<Future<int>> Members() {
    std::vector<Future<int>> members;
    for (int i = 0; i < kMembers; ++i) {
      members.push_back(Async(*pool_, [i] { return i; }));
    }
    return members;
  }

  const std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Create(3);
};

TEST_F(CollectThreadsTest, OneThatIsDoneAndOneThatComesLater) {
  std::vector<Promise<int>> promises(2);
  std::vector<Future<int>> futures;
  for (Promise<int>& promise : promises) futures.push_back(promise.future());
  ASSERT_THAT(promises[0].SetValue(1), IsOk());
  Future<std::vector<int>> all = CollectAll(std::move(futures));
  EXPECT_FALSE(all.done());
  std::thread setter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    promises[1].SetValue(2).IgnoreError();
  });
  ASSERT_THAT(all.Wait(kCollectWatchdog), IsOk());
  EXPECT_THAT(all.value(), IsOkAndHolds(ElementsAre(1, 2)));
  setter.join();
}

TEST_F(CollectThreadsTest, AllOfMany) {
  for (int round = 0; round < kCollectRounds; ++round) {
    Future<std::vector<int>> all = CollectAll(Members());
    ASSERT_THAT(all.Wait(kCollectWatchdog), IsOk());
    const auto values = std::move(all).value();
    ASSERT_THAT(values, IsOk());
    for (int i = 0; i < kMembers; ++i) EXPECT_EQ((*values)[i], i);
  }
}

TEST_F(CollectThreadsTest, SettledAndAnyOfMany) {
  for (int round = 0; round < kCollectRounds; ++round) {
    auto all = CollectAllSettled(Members());
    auto any = CollectAny(Members());
    ASSERT_THAT(any.Wait(kCollectWatchdog), IsOk());
    ASSERT_THAT(all.Wait(kCollectWatchdog), IsOk());
    EXPECT_EQ(all.value()->size(), size_t{kMembers});
    EXPECT_THAT(any.value()->result,
                IsOkAndHolds(static_cast<int>(any.value()->index)));
  }
}

TEST_F(CollectThreadsTest, OneErrorOfManyWinsOnce) {
  for (int round = 0; round < kCollectRounds; ++round) {
    std::vector<Future<int>> members = Members();
    for (int i = 0; i < 3; ++i) {
      members.push_back(
          Async(*pool_, []() -> absl::StatusOr<int> { return Torn(); }));
    }
    Future<std::vector<int>> all = CollectAll(std::move(members));
    ASSERT_THAT(all.Wait(kCollectWatchdog), IsOk());
    EXPECT_THAT(all.value(), StatusIs(absl::StatusCode::kDataLoss));
  }
}

TEST_F(CollectThreadsTest, AskingMayCrossWithTheEnd) {
  for (int round = 0; round < kCollectRounds; ++round) {
    Future<std::vector<int>> all = CollectAll(Members());
    std::thread asker([&all] { all.RequestCancel(); });
    EXPECT_THAT(all.Wait(kCollectWatchdog), IsOk());
    EXPECT_THAT(all.value(), IsOk());
    asker.join();
  }
}

TEST_F(CollectThreadsTest, WaitAllOfMany) {
  for (int round = 0; round < kCollectRounds; ++round) {
    std::vector<Future<int>> members = Members();
    int plain = 0;  // Ordered by WaitAll, which waits for callbacks too.
    members[0].AddDoneCallback([&plain](const auto&) { ++plain; });
    const auto values = WaitAll(members, kCollectWatchdog);
    ASSERT_THAT(values, IsOk());
    EXPECT_EQ(plain, 1);
    for (int i = 0; i < kMembers; ++i) EXPECT_EQ((*values)[i], i);
  }
}

TEST_F(CollectThreadsTest, WaitAllEndsWithAnErrorWhileOthersHang) {
  Promise<int> hangs;
  std::vector<Future<int>> futures;
  futures.push_back(hangs.future());
  futures.push_back(
      Async(*pool_, []() -> absl::StatusOr<int> { return Torn(); }));
  EXPECT_THAT(WaitAll(futures, kCollectWatchdog),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace tenon::futures
