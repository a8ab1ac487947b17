// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/bucket_sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/sampling/sampling_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

std::vector<int64_t> RandomLengths(int64_t size) {
  SampleRandom random(1, 0, 0);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < size; ++i) {
    lengths.push_back(static_cast<int64_t>(random.UniformInt(512)) + 1);
  }
  return lengths;
}

std::unique_ptr<Sampler> Shuffled(int64_t size) {
  return *RandomSampler::Create({.dataset_size = size, .seed = 7});
}

// The bytes that padding each batch to its longest sample adds.
int64_t Padding(const std::vector<int64_t>& epoch,
                const std::vector<int64_t>& lengths, size_t batch_size) {
  int64_t padding = 0;
  for (size_t first = 0; first < epoch.size(); first += batch_size) {
    const size_t last = std::min(first + batch_size, epoch.size());
    int64_t longest = 0;
    for (size_t i = first; i < last; ++i) {
      longest = std::max(longest, lengths[epoch[i]]);
    }
    for (size_t i = first; i < last; ++i)
      padding += longest - lengths[epoch[i]];
  }
  return padding;
}

TEST(BucketSamplerTest, HasEachOnceWhateverTheSizes) {
  for (const int64_t size : {0, 1, 7, 8, 9, 63, 64, 65, 200}) {
    for (const int64_t window : {1, 2, 8, 100}) {
      TENON_ASSERT_OK_AND_ASSIGN(
          auto sampler, BucketSampler::Create({.lengths = RandomLengths(size),
                                               .batch_size = 8,
                                               .window = window},
                                              Shuffled(size)));
      const std::vector<int64_t> epoch = EpochOf(*sampler, 3);
      ASSERT_EQ(Sorted(epoch), Iota(size)) << size << " " << window;
      ASSERT_EQ(EpochBackwards(*sampler, 3), epoch) << size << " " << window;
    }
  }
}

// Each full batch of a window is a run of its samples, sorted by length.
TEST(BucketSamplerTest, BatchesAreRunsOfTheSortedWindow) {
  const std::vector<int64_t> lengths = RandomLengths(100);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      BucketSampler::Create({.lengths = lengths, .batch_size = 8, .window = 5},
                            Shuffled(100)));
  const std::vector<int64_t> epoch = EpochOf(*sampler, 0);
  const std::vector<int64_t> order = EpochOf(*Shuffled(100), 0);
  for (size_t window = 0; window < 100; window += 40) {
    const size_t end = std::min<size_t>(window + 40, 100);
    // The window has the samples of the order's.
    EXPECT_EQ(Sorted({epoch.begin() + window, epoch.begin() + end}),
              Sorted({order.begin() + window, order.begin() + end}));
    // No sample of another batch is strictly between those of a full one.
    for (size_t batch = window; batch + 8 <= end; batch += 8) {
      const int64_t shortest = lengths[epoch[batch]];
      const int64_t longest = lengths[epoch[batch + 7]];
      for (size_t i = window; i < end; ++i) {
        if (i >= batch && i < batch + 8) continue;
        const int64_t length = lengths[epoch[i]];
        // The last, smaller batch is a run as well.
        EXPECT_TRUE(length <= shortest || length >= longest) << i;
      }
    }
  }
}

TEST(BucketSamplerTest, PadsLittle) {
  const std::vector<int64_t> lengths = RandomLengths(6400);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler, BucketSampler::Create(
                        {.lengths = lengths, .batch_size = 32, .window = 50},
                        Shuffled(6400)));
  const int64_t before = Padding(EpochOf(*Shuffled(6400), 0), lengths, 32);
  const int64_t after = Padding(EpochOf(*sampler, 0), lengths, 32);
  EXPECT_LT(after * 20, before);
}

// Long batches come neither first nor last.
TEST(BucketSamplerTest, BatchesOfAWindowAreShuffled) {
  const std::vector<int64_t> lengths = Iota(64);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      BucketSampler::Create({.lengths = lengths, .batch_size = 8, .window = 8},
                            std::make_unique<SequentialSampler>(64)));
  std::vector<int64_t> firsts(8);
  for (int64_t epoch = 0; epoch < 8000; ++epoch) {
    int64_t index = -1;
    sampler->Fill(epoch, 0, {&index, 1});
    ASSERT_EQ(index % 8, 0);
    ++firsts[index / 8];
  }
  EXPECT_LT(ChiSquare(firsts), ChiSquareBound(8));
}

// The batch that is not full may have any length: with drop_last, not always
// the longest samples are left out.
TEST(BucketSamplerTest, TheSmallerBatchHasAnyLength) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      BucketSampler::Create({.lengths = Iota(35), .batch_size = 8, .window = 8},
                            std::make_unique<SequentialSampler>(35)));
  std::vector<int64_t> starts(5);
  for (int64_t epoch = 0; epoch < 5000; ++epoch) {
    int64_t index = -1;
    sampler->Fill(epoch, 32, {&index, 1});
    ASSERT_EQ(index % 8, 0);
    ++starts[index / 8];
  }
  EXPECT_LT(ChiSquare(starts), ChiSquareBound(5));
}

TEST(BucketSamplerTest, RanksGetWholeBatches) {
  const std::vector<int64_t> lengths = RandomLengths(320);
  const auto create = [&] {
    return *BucketSampler::Create(
        {.lengths = lengths, .batch_size = 8, .window = 10}, Shuffled(320));
  };
  const std::vector<int64_t> epoch = EpochOf(*create(), 2);
  for (const int world_size : {2, 4, 5}) {
    for (int rank = 0; rank < world_size; ++rank) {
      TENON_ASSERT_OK_AND_ASSIGN(
          auto sampler,
          DistributedSampler::Create(
              create(), Rank{.rank = rank, .world_size = world_size},
              {.batch_size = 8}));
      const std::vector<int64_t> mine = EpochOf(*sampler, 2);
      for (size_t i = 0; i < mine.size(); ++i) {
        const size_t batch = i / 8 * world_size + rank;
        ASSERT_EQ(mine[i], epoch[batch * 8 + i % 8]);
      }
    }
  }
}

TEST(BucketSamplerTest, AnItemWithoutALengthIsShort) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto sampler,
      BucketSampler::Create({.lengths = {5}, .batch_size = 3, .window = 1},
                            std::make_unique<SequentialSampler>(3)));
  EXPECT_THAT(EpochOf(*sampler, 0), ::testing::ElementsAre(1, 2, 0));
}

TEST(BucketSamplerTest, RefusesWhatItCannotSort) {
  EXPECT_THAT(BucketSampler::Create({}, nullptr),
              StatusIs(StatusCode::kInvalidArgument,
                       "BucketSampler::Create(): there is no order to sort"));
  EXPECT_THAT(BucketSampler::Create({.batch_size = 0}, Shuffled(1)),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("batch_size 0 and window 64; want")));
  EXPECT_THAT(BucketSampler::Create({.window = -1}, Shuffled(1)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("window -1")));
  EXPECT_THAT(BucketSampler::Create({.batch_size = INT64_MAX, .window = 2},
                                    Shuffled(1)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("2^63-1")));
  EXPECT_THAT(BucketSampler::Create({.lengths = {4, -2}}, Shuffled(2)),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("the length of item 1 is -2")));
}

}  // namespace
}  // namespace tenon::loader
