// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/shard_order.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tenon::loader {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// Of shards with so many batches: (shard, number) of all, where the end of a
// shard is known when a batch of it is asked for that it does not have.
std::vector<std::pair<int64_t, int64_t>> Order(std::vector<int64_t> batches) {
  ShardOrder order(std::ssize(batches));
  std::vector<std::pair<int64_t, int64_t>> all;
  while (!order.done()) {
    const int64_t shard = order.shard();
    if (batches[static_cast<size_t>(shard)]-- == 0) {
      order.End(shard);
      order.End(shard);
    } else {
      all.emplace_back(shard, order.number());
      order.Advance();
    }
  }
  return all;
}

TEST(ShardOrderTest, OneBatchOfEachShardInTurn) {
  EXPECT_THAT(Order({2, 2}),
              ElementsAre(Pair(0, 0), Pair(1, 1), Pair(0, 2), Pair(1, 3)));
  EXPECT_THAT(Order({3}), ElementsAre(Pair(0, 0), Pair(0, 1), Pair(0, 2)));
}

TEST(ShardOrderTest, ShardsThatHaveEndedLeaveGaps) {
  EXPECT_THAT(Order({1, 3, 0, 2}),
              ElementsAre(Pair(0, 0), Pair(1, 1), Pair(3, 3), Pair(1, 5),
                          Pair(3, 7), Pair(1, 9)));
}

// With batches assigned ahead the end of a shard is known later.
TEST(ShardOrderTest, ALateEndSkipsWhatFollows) {
  ShardOrder order(3);
  for (int i = 0; i < 4; ++i) order.Advance();
  EXPECT_EQ(order.number(), 4);
  order.End(1);  // The one it is at.
  EXPECT_EQ(order.number(), 5);
  order.End(0);  // One that it is not at.
  EXPECT_EQ(order.number(), 5);
  order.Advance();
  EXPECT_EQ(order.number(), 8);
  order.End(2);
  EXPECT_TRUE(order.done());
}

// All but two of the shards have ended, each in another order.
TEST(ShardOrderTest, ShardsThatHaveEndedAreNotVisited) {
  constexpr int64_t kShards = 100'000;
  for (const int64_t step : {1, 7, -1}) {
    ShardOrder order(kShards);
    for (int64_t i = 0; i < kShards; ++i) {
      const int64_t shard = (i * step % kShards + kShards) % kShards;
      if (shard != 5 && shard != 99'000) order.End(shard);
    }
    std::vector<int64_t> shards;
    for (int i = 0; i < 100'000; ++i) {
      shards.push_back(order.shard());
      order.Advance();
    }
    EXPECT_EQ(shards[0], 5);
    EXPECT_EQ(shards[99'999], 99'000);
    EXPECT_EQ(order.number(), 50'000 * kShards + 5);
    order.End(5);
    EXPECT_EQ(order.number(), 50'000 * kShards + 99'000);
    order.End(99'000);
    EXPECT_TRUE(order.done());
  }
}

TEST(ShardOrderTest, WithoutShardsItIsDone) {
  EXPECT_TRUE(ShardOrder().done());
}

TEST(ShardOrderTest, EverySecondShard) {
  ShardOrder order(5, 1, 2);
  std::vector<int64_t> shards, numbers;
  for (int i = 0; i < 4; ++i, order.Advance()) {
    shards.push_back(order.shard());
    numbers.push_back(order.number());
  }
  EXPECT_THAT(shards, ElementsAre(1, 3, 1, 3));
  EXPECT_THAT(numbers, ElementsAre(1, 3, 6, 8));
  order.End(1);
  EXPECT_EQ(order.shard(), 3);
  EXPECT_EQ(order.number(), 13);
  order.End(3);
  EXPECT_TRUE(order.done());
}

TEST(ShardOrderTest, OfMoreWorkersThanShards) {
  EXPECT_FALSE(ShardOrder(2, 1, 3).done());
  EXPECT_TRUE(ShardOrder(2, 2, 3).done());
}

}  // namespace
}  // namespace tenon::loader
