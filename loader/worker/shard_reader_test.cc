// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/shard_reader.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Shard s has 5 samples: 100 s + n, and a random number. Sample 3 of shard 1
// fails, sample 3 of shard 2 throws; shard 3 cannot be opened, shard 4 throws.
class Shards : public IterableDataset {
 public:
  int64_t shards() const override { return 5; }
  SampleSpec spec() const override {
    return SampleSpec().Add<int64_t>("i").Add<double>("random");
  }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t) override {
    ++opened;
    if (shard == 3) return absl::NotFoundError("no file");
    if (shard == 4) throw std::runtime_error("on fire");
    return std::make_unique<Stream>(shard);
  }
  int opened = 0;

 private:
  class Stream : public SampleStream {
   public:
    explicit Stream(int64_t shard) : shard_(shard) {}
    absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
      if (next_ == 5) return false;
      const int64_t n = next_++;
      if (n == 3 && shard_ == 1) return absl::DataLossError("rotten");
      if (n == 3 && shard_ == 2) throw std::runtime_error("on fire");
      EXPECT_THAT(sample.Set("random", random.Uniform()), IsOk());
      EXPECT_THAT(sample.Set("i", 100 * shard_ + n), IsOk());
      return true;
    }

   private:
    int64_t shard_;
    int64_t next_ = 0;
  };
};

class ShardReaderTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::optional<FilledBatch>> ReadShard(ShardTask task) {
    task.seed = 1;
    task.epoch = 2;
    return reader_.Fill(task, memory_.data()->bytes,
                        [&] { return stop_-- == 0; });
  }
  std::vector<int64_t> Ints(int64_t size) {
    const auto values =
        SampleSpan(layout_, memory_.data()->bytes, 0, size).data<int64_t>("i");
    return {values->begin(), values->end()};
  }

  Shards shards_;
  int stop_ = 1000;
  BatchLayout layout_ = *BatchLayout::Create(shards_.spec(), 8);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory_ = std::vector<Line>(2);
  ShardReader reader_{&shards_, &layout_, {}};
};

TEST_F(ShardReaderTest, ABatchAfterTheOtherUntilTheEnd) {
  TENON_ASSERT_OK_AND_ASSIGN(auto batch, ReadShard({.lane = 0, .samples = 3}));
  EXPECT_EQ(batch->samples, 3);
  EXPECT_THAT(Ints(3), ElementsAre(0, 1, 2));
  EXPECT_EQ(SampleSpan(layout_, memory_.data()->bytes, 2, 1)
                .data<double>("random")
                ->front(),
            SampleRandom(1, 2, PositionInShard(0, 2)).Uniform());
  TENON_ASSERT_OK_AND_ASSIGN(batch, ReadShard({.lane = 0, .samples = 3}));
  EXPECT_EQ(batch->samples, 2);
  EXPECT_THAT(Ints(2), ElementsAre(3, 4));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(ReadShard({.lane = 0, .samples = 3}),
                IsOkAndHolds(Eq(std::nullopt)));
  }
  EXPECT_EQ(shards_.opened, 1);
}

TEST_F(ShardReaderTest, ShardsAreIndependent) {
  ASSERT_THAT(ReadShard({.lane = 1, .samples = 2}), IsOk());
  ASSERT_THAT(ReadShard({.lane = 2, .samples = 1}), IsOk());
  ASSERT_THAT(ReadShard({.lane = 1, .samples = 1}), IsOk());
  EXPECT_THAT(Ints(1), ElementsAre(102));
  ASSERT_THAT(ReadShard({.lane = 2, .samples = 2}), IsOk());
  EXPECT_THAT(Ints(2), ElementsAre(201, 202));
}

TEST_F(ShardReaderTest, PassesOverBatchesBeforeTheFirst) {
  const ShardTask task = {.lane = 0, .before = 1, .samples = 3};
  TENON_ASSERT_OK_AND_ASSIGN(auto batch, ReadShard(task));
  EXPECT_EQ(batch->samples, 2);
  EXPECT_THAT(Ints(2), ElementsAre(3, 4));
  EXPECT_EQ(SampleSpan(layout_, memory_.data()->bytes, 0, 1)
                .data<double>("random")
                ->front(),
            SampleRandom(1, 2, PositionInShard(0, 3)).Uniform());
  // Once.
  EXPECT_THAT(ReadShard(task), IsOkAndHolds(Eq(std::nullopt)));
  // More than there are.
  EXPECT_THAT(ReadShard({.lane = 1, .before = 9, .samples = 3}),
              IsOkAndHolds(Eq(std::nullopt)));
}

// What ended a shard was the error of one batch.
TEST_F(ShardReaderTest, ErrorsThatArePassedOverCount) {
  TENON_ASSERT_OK_AND_ASSIGN(auto batch,
                             ReadShard({.lane = 1,
                                        .before = 1,
                                        .samples = 2,
                                        .on_error = OnSampleError::kSkip}));
  EXPECT_EQ(batch->samples, 1);
  EXPECT_THAT(batch->skipped, SizeIs(1));
  for (const int64_t lane : {2, 3, 4}) {
    ShardReader reader(&shards_, &layout_, {.shards = 5, .lanes = 5});
    const ShardTask task = {.lane = lane, .before = 1, .samples = 5};
    EXPECT_THAT(reader.Fill(task, memory_.data()->bytes, [] { return false; }),
                IsOkAndHolds(Eq(std::nullopt)));
  }
}

TEST_F(ShardReaderTest, StopsWhilePassingOver) {
  int asked = 0;
  EXPECT_THAT(reader_.Fill({.lane = 0, .before = 2, .samples = 2},
                           memory_.data()->bytes, [&] { return ++asked > 3; }),
              StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(asked, 5);  // The second time for the error.
}

// A batch without memory, when its shard is not yet known.
TEST_F(ShardReaderTest, ABatchThatIsLostIsPassedOver) {
  reader_.CloseShard(0, 1);
  TENON_ASSERT_OK_AND_ASSIGN(auto batch,
                             ReadShard({.lane = 0, .before = 2, .samples = 2}));
  EXPECT_EQ(batch->samples, 1);
  EXPECT_THAT(Ints(1), ElementsAre(4));
}

// A batch that was made is not passed over by the one after it.
TEST_F(ShardReaderTest, PassesOverOnlyWhatItHasNotMade) {
  ASSERT_THAT(ReadShard({.lane = 0, .before = 0, .samples = 1}), IsOk());
  ASSERT_THAT(ReadShard({.lane = 0, .before = 1, .samples = 1}), IsOk());
  EXPECT_THAT(Ints(1), ElementsAre(1));
  ASSERT_THAT(ReadShard({.lane = 0, .before = 4, .samples = 1}), IsOk());
  EXPECT_THAT(Ints(1), ElementsAre(4));
}

// A stream that passes over all but every fifth sample, and says `too_many`
// more of them; or fails with INT64_MAX.
class Skipping : public Shards {
 public:
  explicit Skipping(int64_t too_many = 0) : too_many_(too_many) {}
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t,
                                                     int64_t) override {
    return std::make_unique<Stream>(too_many_);
  }

 private:
  class Stream : public SampleStream {
   public:
    explicit Stream(int64_t too_many) : too_many_(too_many) {}
    absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
      EXPECT_THAT(sample.Set("random", random.Uniform()), IsOk());
      EXPECT_THAT(sample.Set("i", next_++), IsOk());
      return true;
    }
    absl::StatusOr<int64_t> Skip(int64_t samples) override {
      if (too_many_ == INT64_MAX) return absl::UnavailableError("no network");
      samples = std::min<int64_t>(samples, 4 - next_ % 5) + too_many_;
      next_ += samples;
      return samples;
    }

   private:
    int64_t too_many_;
    int64_t next_ = 0;
  };

  int64_t too_many_;
};

TEST_F(ShardReaderTest, AStreamMayPassOverSomeSamplesItself) {
  Skipping skipping;
  ShardReader reader(&skipping, &layout_, {});
  const ShardTask task = {
      .seed = 1, .epoch = 2, .lane = 0, .before = 3, .samples = 4};
  ASSERT_THAT(reader.Fill(task, memory_.data()->bytes, [] { return false; }),
              IsOk());
  EXPECT_THAT(Ints(4), ElementsAre(12, 13, 14, 15));
  EXPECT_EQ(SampleSpan(layout_, memory_.data()->bytes, 0, 1)
                .data<double>("random")
                ->front(),
            SampleRandom(1, 2, PositionInShard(0, 12)).Uniform());
}

// How many batches the shard had is not known, so the lane's next shard would
// give batches again that were received.
TEST_F(ShardReaderTest, AFailedSkipIsAnErrorAndTheLanesLastBatch) {
  struct Case {
    int64_t too_many;
    absl::Status error;
  };
  const Case cases[] = {
      {7, absl::InternalError("shard 0: SampleStream::Skip() passed over 11 of "
                              "4 samples; want 0 to 4")},
      {-5, absl::InternalError("shard 0: SampleStream::Skip() passed over -1 "
                               "of 4 samples; want 0 to 4")},
      {INT64_MAX, absl::UnavailableError("shard 0: no network")}};
  for (const auto& [too_many, error] : cases) {
    for (const OnSampleError on_error :
         {OnSampleError::kFail, OnSampleError::kSkip}) {
      Skipping skipping(too_many);
      ShardReader reader(&skipping, &layout_, {.shards = 2, .lanes = 1});
      const auto read = [&](int64_t before) {
        return reader.Fill(
            {.lane = 0, .before = before, .samples = 4, .on_error = on_error},
            memory_.data()->bytes, [] { return false; });
      };
      EXPECT_EQ(read(3).status(), error);
      EXPECT_TRUE(reader.HasEnded(0));
      EXPECT_THAT(read(4), IsOkAndHolds(Eq(std::nullopt)));
    }
  }
}

TEST_F(ShardReaderTest, DropLastLeavesOutTheShortBatch) {
  const ShardTask task = {.lane = 0, .samples = 3, .drop_last = true};
  EXPECT_THAT(ReadShard(task), IsOkAndHolds(::testing::Ne(std::nullopt)));
  EXPECT_THAT(ReadShard(task), IsOkAndHolds(Eq(std::nullopt)));
}

TEST_F(ShardReaderTest, AnErrorEndsItsShard) {
  EXPECT_THAT(ReadShard({.lane = 1, .samples = 5}),
              StatusIs(StatusCode::kDataLoss, "shard 1, sample 3: rotten"));
  EXPECT_THAT(ReadShard({.lane = 1, .samples = 5}),
              IsOkAndHolds(Eq(std::nullopt)));
  EXPECT_THAT(ReadShard({.lane = 2, .samples = 5}),
              StatusIs(StatusCode::kInternal, HasSubstr("threw: on fire")));
  EXPECT_THAT(ReadShard({.lane = 0, .samples = 5}), IsOk());
}

TEST_F(ShardReaderTest, SkipsBadSamples) {
  for (const int64_t shard : {1, 2}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto batch,
        ReadShard(
            {.lane = shard, .samples = 5, .on_error = OnSampleError::kSkip}));
    EXPECT_EQ(batch->samples, 4);
    EXPECT_THAT(Ints(4), ElementsAre(100 * shard, 100 * shard + 1,
                                     100 * shard + 2, 100 * shard + 4));
    ASSERT_THAT(batch->skipped, SizeIs(1));
    EXPECT_EQ(batch->skipped[0].position, PositionInShard(shard, 3));
    EXPECT_EQ(batch->skipped[0].index, 3);
  }
}

TEST_F(ShardReaderTest, AShardThatCannotBeOpenedHasOneError) {
  EXPECT_THAT(ReadShard({.lane = 3, .samples = 5}),
              StatusIs(StatusCode::kNotFound, "shard 3: no file"));
  EXPECT_THAT(ReadShard({.lane = 3, .samples = 5}),
              IsOkAndHolds(Eq(std::nullopt)));
  EXPECT_THAT(ReadShard({.lane = 4, .samples = 5}),
              StatusIs(StatusCode::kInternal,
                       HasSubstr("IterableDataset::Open() threw: on fire")));
  EXPECT_EQ(shards_.opened, 2);
}

TEST_F(ShardReaderTest, AClosedShardHasEnded) {
  EXPECT_FALSE(reader_.HasEnded(0));
  ASSERT_THAT(ReadShard({.lane = 0, .samples = 2}), IsOk());
  EXPECT_FALSE(reader_.HasEnded(0));
  for (const int64_t shard : {0, 1}) {  // Open, and not opened yet.
    reader_.CloseShard(shard);
    EXPECT_TRUE(reader_.HasEnded(shard));
    EXPECT_THAT(ReadShard({.lane = shard, .samples = 2}),
                IsOkAndHolds(Eq(std::nullopt)));
  }
  EXPECT_EQ(shards_.opened, 1);
}

// Lane 1 of two: shards 1 and 3; lane 0: shards 0, 2 and 4.
TEST_F(ShardReaderTest, TheShardsOfALaneOneAfterTheOther) {
  ShardReader reader(&shards_, &layout_, {.shards = 5, .lanes = 2});
  const auto read = [&](int64_t lane, int64_t samples) {
    const ShardTask task = {
        .seed = 1, .epoch = 2, .lane = lane, .samples = samples};
    return reader.Fill(task, memory_.data()->bytes, [] { return false; });
  };
  ASSERT_THAT(read(0, 3), IsOk());
  EXPECT_EQ(shards_.opened, 1);
  // The short last batch of shard 0, then the first of shard 2.
  TENON_ASSERT_OK_AND_ASSIGN(auto batch, read(0, 3));
  EXPECT_EQ(batch->samples, 2);
  EXPECT_FALSE(reader.HasEnded(0));
  EXPECT_EQ(shards_.opened, 1);
  ASSERT_THAT(read(0, 3), IsOk());
  EXPECT_THAT(Ints(3), ElementsAre(200, 201, 202));
  EXPECT_EQ(SampleSpan(layout_, memory_.data()->bytes, 2, 1)
                .data<double>("random")
                ->front(),
            SampleRandom(1, 2, PositionInShard(2, 2)).Uniform());
  // Each shard has its error, and the lane goes on.
  EXPECT_THAT(read(0, 3), StatusIs(StatusCode::kInternal,
                                   HasSubstr("shard 2, sample 3: ")));
  EXPECT_THAT(read(0, 3),
              StatusIs(StatusCode::kInternal, HasSubstr("shard 4: ")));
  EXPECT_TRUE(reader.HasEnded(0));
  EXPECT_THAT(read(0, 3), IsOkAndHolds(Eq(std::nullopt)));
  // A closed shard makes room for the next one.
  reader.CloseShard(1);
  EXPECT_FALSE(reader.HasEnded(1));
  EXPECT_THAT(read(1, 3), StatusIs(StatusCode::kNotFound, "shard 3: no file"));
  EXPECT_TRUE(reader.HasEnded(1));
}

// As of a batch without memory, which would be of the next shard.
TEST_F(ShardReaderTest, ToCloseALaneAtTheEndOfAShardClosesTheNextOne) {
  ShardReader reader(&shards_, &layout_, {.shards = 3, .lanes = 1});
  const auto read = [&](int64_t samples) {
    return reader.Fill({.samples = samples}, memory_.data()->bytes,
                       [] { return false; });
  };
  ASSERT_THAT(read(8), IsOk());
  EXPECT_THAT(Ints(5), ElementsAre(0, 1, 2, 3, 4));
  reader.CloseShard(0);
  EXPECT_FALSE(reader.HasEnded(0));
  ASSERT_THAT(read(2), IsOk());
  EXPECT_THAT(Ints(2), ElementsAre(200, 201));
  reader.CloseShard(0);
  EXPECT_TRUE(reader.HasEnded(0));
}

TEST_F(ShardReaderTest, StopsBetweenSamples) {
  stop_ = 2;
  EXPECT_THAT(ReadShard({.lane = 0, .samples = 5}),
              StatusIs(StatusCode::kCancelled));
}

}  // namespace
}  // namespace tenon::loader
