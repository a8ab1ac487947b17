// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/batch_sampler.h"

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Batches = std::vector<std::vector<int64_t>>;

Batches AllBatches(BatchSampler& sampler, int64_t epoch) {
  Batches batches(static_cast<size_t>(sampler.size()));
  for (int64_t number = sampler.size() - 1; number >= 0; --number) {
    batches[static_cast<size_t>(number)] = {99, 99};  // Is replaced.
    sampler.Fill(epoch, number, batches[static_cast<size_t>(number)]);
  }
  return batches;
}

// A user's: batches of 2 and 3 items in turn.
class TwosAndThrees : public BatchSampler {
 public:
  explicit TwosAndThrees(int64_t pairs) : pairs_(pairs) {}

  int64_t size() const override { return 2 * pairs_; }
  int64_t max_batch_size() const override { return 3; }
  void Fill(int64_t /*epoch*/, int64_t number,
            std::vector<int64_t>& indices) override {
    const int64_t first = number / 2 * 5 + number % 2 * 2;
    indices.clear();
    for (int64_t i = 0; i < 2 + number % 2; ++i) indices.push_back(first + i);
  }

 private:
  int64_t pairs_;
};

TEST(FixedBatchSamplerTest, CutsAnOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto all,
      FixedBatchSampler::Create(std::make_unique<SequentialSampler>(7), 3));
  EXPECT_THAT(
      AllBatches(*all, 0),
      ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5), ElementsAre(6)));
  EXPECT_EQ(all->FirstPosition(2), 6);
  EXPECT_EQ(all->max_batch_size(), 3);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto full, FixedBatchSampler::Create(
                     std::make_unique<SequentialSampler>(7), 3, true));
  EXPECT_THAT(AllBatches(*full, 0),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
}

// torch's test_len and test_iterabledataset_len.
TEST(FixedBatchSamplerTest, Sizes) {
  const auto size = [](int64_t items, int64_t batch_size, bool drop_last) {
    return (*FixedBatchSampler::Create(
                std::make_unique<SequentialSampler>(items), batch_size,
                drop_last))
        ->size();
  };
  EXPECT_EQ(size(100, 1, false), 100);
  EXPECT_EQ(size(100, 2, false), 50);
  EXPECT_EQ(size(100, 3, false), 34);
  EXPECT_EQ(size(10, 1, true), 10);
  EXPECT_EQ(size(10, 2, true), 5);
  EXPECT_EQ(size(10, 3, false), 4);
  EXPECT_EQ(size(10, 3, true), 3);
  EXPECT_EQ(size(0, 3, false), 0);
  EXPECT_EQ(size(3, INT64_MAX, false), 1);
}

TEST(FixedBatchSamplerTest, RefusesWhatItCannotCut) {
  EXPECT_THAT(FixedBatchSampler::Create(nullptr, 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no order")));
  EXPECT_THAT(
      FixedBatchSampler::Create(std::make_unique<SequentialSampler>(7), 0),
      StatusIs(StatusCode::kInvalidArgument,
               "FixedBatchSampler::Create(): batch_size is 0; it must be at "
               "least 1"));
}

TEST(FixedBatchSamplerTest, RefusesAnOrderOfOtherBatches) {
  for (const int64_t batch_size : {3, 6}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto slice, DistributedSampler::Create(
                        std::make_unique<SequentialSampler>(48),
                        {.rank = 1, .world_size = 3}, {.batch_size = 4}));
    EXPECT_THAT(FixedBatchSampler::Create(std::move(slice), batch_size),
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("samples of several batches of the job")));
  }
}

TEST(BatchSamplerTest, AUsersMayHaveBatchesOfAnySize) {
  TwosAndThrees sampler(2);
  EXPECT_THAT(AllBatches(sampler, 0),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4),
                          ElementsAre(5, 6), ElementsAre(7, 8, 9)));
  std::set<int64_t> positions;
  for (int64_t number = 0; number < 4; ++number) {
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(positions.insert(sampler.FirstPosition(number) + i).second);
    }
  }
}

TEST(DistributedBatchSamplerTest, RanksTakeBatchesInTurn) {
  for (const Remainder remainder : {Remainder::kPad, Remainder::kDrop}) {
    for (const int world_size : {1, 2, 3, 5, 9}) {
      TwosAndThrees whole(4);  // 8 batches.
      const Batches batches = AllBatches(whole, 0);
      const int64_t each = remainder == Remainder::kPad
                               ? (8 + world_size - 1) / world_size
                               : 8 / world_size;
      for (int rank = 0; rank < world_size; ++rank) {
        TENON_ASSERT_OK_AND_ASSIGN(
            auto sampler,
            DistributedBatchSampler::Create(
                std::make_unique<TwosAndThrees>(4),
                Rank{.rank = rank, .world_size = world_size}, remainder));
        ASSERT_EQ(sampler->size(), each);
        EXPECT_EQ(sampler->max_batch_size(), 3);
        const Batches mine = AllBatches(*sampler, 0);
        for (int64_t number = 0; number < each; ++number) {
          const int64_t global = number * world_size + rank;
          EXPECT_EQ(mine[static_cast<size_t>(number)],
                    batches[static_cast<size_t>(global % 8)]);
          EXPECT_EQ(sampler->FirstPosition(number),
                    whole.FirstPosition(global));
        }
      }
    }
  }
}

// Cutting the slice of a rank, or slicing the batches, is the same.
TEST(DistributedBatchSamplerTest, IsAsADistributedSampler) {
  for (int rank = 0; rank < 3; ++rank) {
    const Rank place = {.rank = rank, .world_size = 3};
    TENON_ASSERT_OK_AND_ASSIGN(
        auto slice,
        DistributedSampler::Create(std::make_unique<SequentialSampler>(48),
                                   place, {.batch_size = 4}));
    TENON_ASSERT_OK_AND_ASSIGN(auto cut,
                               FixedBatchSampler::Create(std::move(slice), 4));
    TENON_ASSERT_OK_AND_ASSIGN(
        auto batches,
        FixedBatchSampler::Create(std::make_unique<SequentialSampler>(48), 4));
    TENON_ASSERT_OK_AND_ASSIGN(auto sliced, DistributedBatchSampler::Create(
                                                std::move(batches), place));
    EXPECT_EQ(AllBatches(*cut, 0), AllBatches(*sliced, 0));
    EXPECT_EQ(cut->FirstPosition(2), sliced->FirstPosition(2));
  }
}

TEST(DistributedBatchSamplerTest, RefusesARankOutOfRange) {
  EXPECT_THAT(
      DistributedBatchSampler::Create(std::make_unique<TwosAndThrees>(1),
                                      Rank{.rank = 3, .world_size = 3}),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("rank is 3")));
  EXPECT_THAT(DistributedBatchSampler::Create(nullptr, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no batches")));
}

}  // namespace
}  // namespace tenon::loader
