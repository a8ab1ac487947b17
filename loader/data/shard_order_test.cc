// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/shard_order.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
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
    const int64_t shard = order.lane();
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
      shards.push_back(order.lane());
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
    shards.push_back(order.lane());
    numbers.push_back(order.number());
  }
  EXPECT_THAT(shards, ElementsAre(1, 3, 1, 3));
  EXPECT_THAT(numbers, ElementsAre(1, 3, 6, 8));
  order.End(1);
  EXPECT_EQ(order.lane(), 3);
  EXPECT_EQ(order.number(), 13);
  order.End(3);
  EXPECT_TRUE(order.done());
}

TEST(ShardLanesTest, EachShardIsInOneLane) {
  const ShardLanes lanes = {.shards = 7, .lanes = 3};
  std::vector<std::vector<int64_t>> all;
  for (int64_t lane = 0; lane < 3; ++lane) {
    all.emplace_back();
    std::optional<int64_t> shard = lane;
    for (; shard; shard = lanes.After(*shard)) all.back().push_back(*shard);
    for (int64_t s = -1; s < 9; ++s) {
      EXPECT_EQ(lanes.Contains(lane, s),
                std::count(all.back().begin(), all.back().end(), s) == 1)
          << lane << " " << s;
    }
  }
  EXPECT_THAT(all, ElementsAre(ElementsAre(0, 3, 6), ElementsAre(1, 4),
                               ElementsAre(2, 5)));
  EXPECT_EQ(ShardLanes().After(2), std::nullopt);
  EXPECT_TRUE(ShardLanes().Contains(2, 2));
  EXPECT_FALSE(ShardLanes().Contains(2, 3));
}

TEST(LaneStartTest, CountsTheBatchesBefore) {
  const LaneStart start = {.lanes = 3, .positions = {7, 4}};
  EXPECT_FALSE(start.at_beginning());
  EXPECT_EQ(start.BatchesBefore(0), 3);  // 0, 3, 6
  EXPECT_EQ(start.BatchesBefore(1), 1);  // 1
  EXPECT_EQ(start.BatchesBefore(2), 2);  // 2, 5
  EXPECT_TRUE(LaneStart().at_beginning());
  EXPECT_EQ(LaneStart().BatchesBefore(2), 0);
}

// The numbers of the first batches, of every `step`-th lane.
std::vector<int64_t> Numbers(ShardOrder order, size_t count) {
  std::vector<int64_t> numbers;
  for (; numbers.size() < count; order.Advance()) {
    numbers.push_back(order.number());
  }
  return numbers;
}

TEST(ShardOrderTest, BeginsWhereEachLaneGoesOn) {
  for (int64_t position = 0; position < 12; ++position) {
    EXPECT_EQ(
        Numbers(ShardOrder(4, 0, 1, {.lanes = 4, .positions = {position}}),
                1)[0],
        position);
  }
  EXPECT_THAT(Numbers(ShardOrder(5, 1, 2, {.lanes = 5, .positions = {7}}), 4),
              ElementsAre(8, 11, 13, 16));
  // Lane 0 has 5 batches before, lane 1 has 2.
  const LaneStart uneven = {.lanes = 2, .positions = {10, 5}};
  EXPECT_THAT(Numbers(ShardOrder(2, 0, 1, uneven), 5),
              ElementsAre(5, 7, 9, 10, 11));
  EXPECT_THAT(Numbers(ShardOrder(2, 1, 2, uneven), 2), ElementsAre(5, 7));
}

TEST(ShardOrderTest, APositionFarAwayIsReachedAtOnce) {
  constexpr int64_t kFar = int64_t{1} << 60;
  ShardOrder order(2, 0, 1, {.lanes = 2, .positions = {kFar, 1}});
  EXPECT_THAT(Numbers(order, 2), ElementsAre(1, 3));
  order.End(1);
  EXPECT_EQ(order.number(), kFar);
  order.End(0);
  EXPECT_TRUE(order.done());
}

TEST(ShardOrderTest, OfMoreWorkersThanShards) {
  EXPECT_FALSE(ShardOrder(2, 1, 3).done());
  EXPECT_TRUE(ShardOrder(2, 2, 3).done());
}

}  // namespace
}  // namespace tenon::loader
