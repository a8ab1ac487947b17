// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/distributed_sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/sampling/sampling_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The samplers of all ranks over the same random order, or 0, 1, 2...
std::vector<std::unique_ptr<DistributedSampler>> AllRanks(
    int64_t size, int world_size, const DistributedSamplerOptions& options,
    bool shuffle = true) {
  std::vector<std::unique_ptr<DistributedSampler>> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    std::unique_ptr<Sampler> order = std::make_unique<SequentialSampler>(size);
    if (shuffle) {
      order = *RandomSampler::Create({.dataset_size = size, .seed = 11});
    }
    ranks.push_back(*DistributedSampler::Create(
        std::move(order), Rank{.rank = rank, .world_size = world_size},
        options));
  }
  return ranks;
}

// One batch of each rank in turn.
std::vector<int64_t> Interleaved(
    const std::vector<std::unique_ptr<DistributedSampler>>& ranks,
    int64_t epoch, int64_t batch_size) {
  std::vector<int64_t> all;
  for (int64_t first = 0; first < ranks[0]->size(); first += batch_size) {
    for (const auto& rank : ranks) {
      std::vector<int64_t> batch(
          static_cast<size_t>(std::min(batch_size, rank->size() - first)));
      rank->Fill(epoch, first, absl::MakeSpan(batch));
      all.insert(all.end(), batch.begin(), batch.end());
    }
  }
  return all;
}

// The property that all others follow from: for any sizes, the ranks' batches
// in turn are the epoch of one process, less or more what cannot be divided.
TEST(DistributedSamplerTest, InterleavedBatchesAreTheEpochOfOneProcess) {
  for (const int64_t size : {1, 2, 5, 16, 31, 32, 33, 100, 257}) {
    for (const int world_size : {1, 2, 3, 4, 7}) {
      for (const int64_t batch_size : {1, 2, 8, 50}) {
        const std::vector<int64_t> epoch = EpochOf(
            **RandomSampler::Create({.dataset_size = size, .seed = 11}), 3);
        std::vector<int64_t> dropped = epoch;
        dropped.resize(static_cast<size_t>(size / world_size * world_size));
        EXPECT_EQ(Interleaved(AllRanks(size, world_size,
                                       {.batch_size = batch_size,
                                        .remainder = Remainder::kDrop}),
                              3, batch_size),
                  dropped)
            << size << " " << world_size << " " << batch_size;
        std::vector<int64_t> padded = epoch;
        while (padded.size() % static_cast<size_t>(world_size) != 0) {
          padded.push_back(
              epoch[(padded.size() - epoch.size()) % epoch.size()]);
        }
        EXPECT_EQ(
            Interleaved(AllRanks(size, world_size, {.batch_size = batch_size}),
                        3, batch_size),
            padded)
            << size << " " << world_size << " " << batch_size;
      }
    }
  }
}

TEST(DistributedSamplerTest, RanksHaveAsManySamples) {
  for (const int64_t size : {0, 1, 9, 100, 101}) {
    for (const int world_size : {1, 2, 3, 7}) {
      for (const Remainder remainder : {Remainder::kPad, Remainder::kDrop}) {
        const int64_t want = remainder == Remainder::kPad
                                 ? (size + world_size - 1) / world_size
                                 : size / world_size;
        for (const auto& rank : AllRanks(
                 size, world_size, {.batch_size = 4, .remainder = remainder})) {
          EXPECT_EQ(rank->size(), want);
          EXPECT_EQ(EpochOf(*rank, 0), EpochBackwards(*rank, 0));
        }
      }
    }
  }
}

TEST(DistributedSamplerTest, PositionsAreThoseOfTheWholeEpoch) {
  for (const int64_t batch_size : {1, 4, 50}) {
    std::set<int64_t> seen;
    for (const auto& rank :
         AllRanks(101, 3, {.batch_size = batch_size}, /*shuffle=*/false)) {
      const std::vector<int64_t> epoch = EpochOf(*rank, 0);
      for (int64_t i = 0; i < rank->size(); ++i) {
        const int64_t position = rank->GlobalPosition(i);
        EXPECT_EQ(epoch[static_cast<size_t>(i)], position % 101);
        EXPECT_TRUE(seen.insert(position).second);
      }
    }
    EXPECT_EQ(seen.size(), 102u);
    EXPECT_EQ(*seen.rbegin(), 101);
  }
}

// torch's order: samples in turn.
TEST(DistributedSamplerTest, WithBatchesOfOneRanksTakeSamplesInTurn) {
  const auto ranks = AllRanks(10, 3, {}, /*shuffle=*/false);
  EXPECT_THAT(EpochOf(*ranks[0], 0), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(EpochOf(*ranks[1], 0), ElementsAre(1, 4, 7, 0));
  EXPECT_THAT(EpochOf(*ranks[2], 0), ElementsAre(2, 5, 8, 1));
}

// LibTorch's: 10 items, 3 replicas; with duplicates 4 each, 0 and 1 twice;
// without, 3 each, 0 to 8.
TEST(DistributedSamplerTest, TenItemsForThreeRanks) {
  for (const int64_t batch_size : {1, 2, 3}) {
    for (const bool shuffle : {false, true}) {
      std::map<int64_t, int> times;
      for (const auto& rank :
           AllRanks(10, 3, {.batch_size = batch_size}, shuffle)) {
        EXPECT_EQ(rank->size(), 4);
        for (const int64_t index : EpochOf(*rank, 0)) ++times[index];
      }
      EXPECT_EQ(times.size(), 10u);
      if (!shuffle) {
        EXPECT_EQ(times[0], 2);
        EXPECT_EQ(times[1], 2);
      }
      std::vector<int64_t> all;
      for (const auto& rank : AllRanks(
               10, 3, {.batch_size = batch_size, .remainder = Remainder::kDrop},
               shuffle)) {
        EXPECT_EQ(rank->size(), 3);
        for (const int64_t index : EpochOf(*rank, 0)) all.push_back(index);
      }
      if (!shuffle) {
        EXPECT_EQ(Sorted(all), Iota(9));
      }
      EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 9u);
    }
  }
}

// torch's: 4 replicas, 9 items, batches of 2: no item twice.
TEST(DistributedSamplerTest, DroppedSamplesAreNotDuplicated) {
  for (const int64_t batch_size : {1, 2}) {
    std::vector<int64_t> all;
    for (const auto& rank : AllRanks(
             9, 4, {.batch_size = batch_size, .remainder = Remainder::kDrop})) {
      for (const int64_t index : EpochOf(*rank, 0)) all.push_back(index);
    }
    EXPECT_EQ(all.size(), 8u);
    EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 8u);
  }
}

TEST(DistributedSamplerTest, EachEpochHasAnotherOrder) {
  const auto ranks = AllRanks(100, 2, {});
  EXPECT_NE(EpochOf(*ranks[0], 0), EpochOf(*ranks[0], 1));
  EXPECT_EQ(EpochOf(*ranks[0], 0), EpochOf(*ranks[0], 0));
}

// Saved is (epoch, position), here 3 and 7.
TEST(DistributedSamplerTest, ResumesAtAPosition) {
  const auto before = AllRanks(40, 2, {.batch_size = 4});
  const std::vector<int64_t> epoch = EpochOf(*before[1], 3);
  const auto after = AllRanks(40, 2, {.batch_size = 4});
  std::vector<int64_t> rest(static_cast<size_t>(after[1]->size() - 7));
  after[1]->Fill(3, 7, absl::MakeSpan(rest));
  EXPECT_EQ(rest, std::vector<int64_t>(epoch.begin() + 7, epoch.end()));
}

// Whatever ranks and batches an epoch began with.
TEST(DistributedSamplerTest, WhatRemainsIsDividedAnew) {
  constexpr int64_t kSize = 43;
  std::vector<int64_t> whole(kSize);
  const auto order = AllRanks(kSize, 1, {});
  order[0]->Whole().Fill(3, 0, absl::MakeSpan(whole));
  for (int64_t start = 0; start <= kSize; ++start) {
    for (const int world_size : {1, 2, 3}) {
      const auto ranks = AllRanks(kSize, world_size, {.batch_size = 4});
      std::vector<std::unique_ptr<Sampler>> rests;
      for (const auto& rank : ranks) {
        EXPECT_EQ(rank->Whole().size(), kSize);
        rests.push_back(rank->From(start));
      }
      std::map<int64_t, int64_t> by_position;
      for (const auto& rest : rests) {
        EXPECT_EQ(rest->size(), rests[0]->size());
        const std::vector<int64_t> indices = EpochOf(*rest, 3);
        for (size_t i = 0; i < indices.size(); ++i) {
          const int64_t at = rest->GlobalPosition(static_cast<int64_t>(i));
          EXPECT_GE(at, start);
          EXPECT_TRUE(by_position.emplace(at, indices[i]).second);
          // What fills up the epoch is what filled it up before.
          EXPECT_EQ(indices[i], whole[static_cast<size_t>(at % kSize)]);
        }
        EXPECT_EQ(rest->WholePosition(0), start);
        EXPECT_EQ(rest->WholePosition(rest->size()), kSize);
        if (rest->size() > 4) {
          EXPECT_EQ(rest->WholePosition(4), start + 4 * world_size);
          EXPECT_EQ(rest->WholePosition(3), std::nullopt);
        }
      }
      for (int64_t at = start; at < kSize; ++at) {
        EXPECT_TRUE(by_position.contains(at)) << at;
      }
    }
  }
}

TEST(DistributedSamplerTest, MoreRanksThanItems) {
  std::vector<int64_t> all;
  for (const auto& rank : AllRanks(2, 7, {}, /*shuffle=*/false)) {
    for (const int64_t index : EpochOf(*rank, 0)) all.push_back(index);
  }
  EXPECT_THAT(all, ElementsAre(0, 1, 0, 1, 0, 1, 0));
}

TEST(DistributedSamplerTest, OfNothing) {
  for (const auto& rank : AllRanks(0, 3, {.batch_size = 4})) {
    EXPECT_THAT(EpochOf(*rank, 0), IsEmpty());
  }
}

TEST(DistributedSamplerTest, HugeBatches) {
  const auto ranks = AllRanks(10, 3, {.batch_size = INT64_MAX});
  std::vector<int64_t> all;
  for (const auto& rank : ranks) {
    for (const int64_t index : EpochOf(*rank, 0)) all.push_back(index);
  }
  EXPECT_EQ(all.size(), 12u);
}

TEST(DistributedSamplerTest, RefusesARankOutOfRange) {
  const auto create = [](const Rank& rank, int64_t batch_size) {
    return DistributedSampler::Create(std::make_unique<SequentialSampler>(9),
                                      rank, {.batch_size = batch_size});
  };
  EXPECT_THAT(create({.rank = 3, .world_size = 3}, 1),
              StatusIs(StatusCode::kInvalidArgument,
                       "DistributedSampler::Create(): the rank is 3; in a "
                       "world of 3 it must be 0 to 2"));
  EXPECT_THAT(create({.rank = -1, .world_size = 3}, 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rank is -1")));
  EXPECT_THAT(create({}, 0),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("batch_size is 0; it must be at least 1")));
  EXPECT_THAT(DistributedSampler::Create(nullptr, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no order")));
}

}  // namespace
}  // namespace tenon::loader
