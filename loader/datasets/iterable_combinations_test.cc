// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Iterable datasets that are made of others.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/datasets/chain_dataset.h"
#include "tenon/loader/datasets/mix_dataset.h"
#include "tenon/loader/datasets/transform_stream.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Shard s: first + 1000 s and the following `size`.
class CountingUp : public IterableDataset {
 public:
  CountingUp(int64_t first, int64_t size, int64_t shards = 2,
             std::string field = "i")
      : first_(first), size_(size), shards_(shards), field_(std::move(field)) {}
  int64_t shards() const override { return shards_; }
  SampleSpec spec() const override { return SampleSpec().Add<int64_t>(field_); }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t) override {
    if (size_ < 0) return absl::NotFoundError("no such file");
    return std::make_unique<Stream>(first_ + 1000 * shard, size_);
  }

 private:
  class Stream : public SampleStream {
   public:
    Stream(int64_t next, int64_t size) : next_(next), left_(size) {}
    absl::StatusOr<bool> Next(SampleRandom&, Sample& sample) override {
      EXPECT_GE(left_, 0);  // Not called after the end.
      if (left_-- == 0) return false;
      EXPECT_THAT(sample.Set(0, next_++), IsOk());
      return true;
    }
    absl::StatusOr<int64_t> Skip(int64_t samples) override {
      samples = std::min(samples, left_);
      next_ += samples;
      left_ -= samples;
      return samples;
    }

   private:
    int64_t next_;
    int64_t left_;
  };

  int64_t first_;
  int64_t size_;
  int64_t shards_;
  std::string field_;
};

template <typename... D>
std::vector<std::unique_ptr<IterableDataset>> Several(D... datasets) {
  std::vector<std::unique_ptr<IterableDataset>> all;
  (all.push_back(std::make_unique<CountingUp>(std::move(datasets))), ...);
  return all;
}

// Open() returns no stream.
class OpensNothing : public CountingUp {
 public:
  OpensNothing() : CountingUp(0, 1) {}
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t,
                                                     int64_t) override {
    return nullptr;
  }
};

std::vector<std::unique_ptr<IterableDataset>> WithOneThatOpensNothing() {
  std::vector<std::unique_ptr<IterableDataset>> all = Several(CountingUp(0, 2));
  all.push_back(std::make_unique<OpensNothing>());
  return all;
}

// All samples of a shard; ends with -1 for an error.
std::vector<int64_t> ShardOf(IterableDataset& dataset, int64_t shard,
                             int64_t epoch = 0) {
  const BatchLayout layout = *BatchLayout::Create(dataset.spec(), 1);
  alignas(64) std::byte memory[64];
  std::vector<int64_t> all;
  const auto stream = dataset.Open(shard, epoch);
  EXPECT_THAT(stream, IsOk());
  for (int64_t n = 0;; ++n) {
    SampleRandom random(1, epoch, PositionInShard(shard, n));
    Sample sample(layout, memory, 0, 1);
    const absl::StatusOr<bool> more = (*stream)->Next(random, sample);
    if (more.ok() && !*more) return all;
    all.push_back(more.ok() ? sample.data<int64_t>(0)->front() : -1);
    if (!more.ok()) return all;
  }
}

absl::StatusOr<int64_t> NextValue(SampleStream& stream) {
  const BatchLayout layout =
      *BatchLayout::Create(SampleSpec().Add<int64_t>("i"), 1);
  alignas(64) std::byte memory[64];
  SampleRandom random(1, 0, 0);
  Sample sample(layout, memory, 0, 1);
  const absl::StatusOr<bool> more = stream.Next(random, sample);
  if (!more.ok()) return more.status();
  return *more ? sample.data<int64_t>(0)->front() : -1;
}

// ---- ChainDataset ----

TEST(ChainDatasetTest, OneAfterTheOtherInEachShard) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto chain,
      ChainDataset::Create(
          Several(CountingUp(0, 3), CountingUp(50, 0), CountingUp(70, 2))));
  EXPECT_EQ(chain->shards(), 2);
  EXPECT_THAT(ShardOf(*chain, 0), ElementsAre(0, 1, 2, 70, 71));
  EXPECT_THAT(ShardOf(*chain, 1), ElementsAre(1000, 1001, 1002, 1070, 1071));
}

TEST(ChainDatasetTest, ALaterErrorIsThatOfASample) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto chain,
      ChainDataset::Create(Several(CountingUp(0, 2), CountingUp(50, -1))));
  EXPECT_THAT(ShardOf(*chain, 0), ElementsAre(0, 1, -1));
}

TEST(ChainDatasetTest, AMemberThatOpensNoStreamIsAnError) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto chain,
                             ChainDataset::Create(WithOneThatOpensNothing()));
  EXPECT_THAT(ShardOf(*chain, 0), ElementsAre(0, 1, -1));
}

TEST(ChainDatasetTest, RefusesOtherFieldsAndShards) {
  EXPECT_THAT(
      ChainDataset::Create(Several(CountingUp(0, 1), CountingUp(0, 1, 3))),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("dataset 1 has 3 shards, dataset 0 has 2")));
  EXPECT_THAT(
      ChainDataset::Create(Several(CountingUp(0, 1), CountingUp(0, 1, 2, "j"))),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("fields")));
  EXPECT_THAT(ChainDataset::Create({}), StatusIs(StatusCode::kInvalidArgument));
}

// ---- MixDataset ----

MixWeights Always(std::vector<double> weights) {
  return [weights](int64_t) { return weights; };
}

// Skip() passes over what the stream at hand can, and the rest is read.
TEST(ChainDatasetTest, PassesOverSamplesOfTheStreamAtHand) {
  std::vector<std::unique_ptr<IterableDataset>> members;
  members.push_back(std::make_unique<CountingUp>(0, 3));
  members.push_back(std::make_unique<CountingUp>(10, 3));
  TENON_ASSERT_OK_AND_ASSIGN(auto chain,
                             ChainDataset::Create(std::move(members)));
  TENON_ASSERT_OK_AND_ASSIGN(auto stream, chain->Open(0, 0));
  EXPECT_THAT(stream->Skip(5), IsOkAndHolds(0));  // Not open.
  EXPECT_THAT(NextValue(*stream), IsOkAndHolds(0));
  EXPECT_THAT(stream->Skip(5), IsOkAndHolds(2));
  EXPECT_THAT(stream->Skip(3), IsOkAndHolds(0));
  EXPECT_THAT(NextValue(*stream), IsOkAndHolds(10));
  EXPECT_THAT(stream->Skip(1), IsOkAndHolds(1));
  EXPECT_THAT(NextValue(*stream), IsOkAndHolds(12));
}

TEST(TransformIterableTest, PassesOverWithoutItsFunction) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto dataset,
      TransformIterable::Create(std::make_unique<CountingUp>(0, 5),
                                [](SampleRandom&, Sample&) -> absl::Status {
                                  return absl::InternalError("called");
                                }));
  TENON_ASSERT_OK_AND_ASSIGN(auto stream, dataset->Open(0, 0));
  EXPECT_THAT(stream->Skip(4), IsOkAndHolds(4));
  EXPECT_THAT(NextValue(*stream), StatusIs(StatusCode::kInternal, "called"));
  EXPECT_THAT(stream->Skip(4), IsOkAndHolds(0));
}

TEST(MixDatasetTest, HasAllSamplesEachInItsOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto mix,
      MixDataset::Create(Several(CountingUp(0, 30), CountingUp(100, 20)),
                         Always({1, 1})));
  const std::vector<int64_t> all = ShardOf(*mix, 0);
  ASSERT_THAT(all, SizeIs(50));
  int64_t first = 0;
  int64_t second = 100;
  for (const int64_t value : all) {
    EXPECT_EQ(value, value < 100 ? first : second);
    ++(value < 100 ? first : second);
  }
  EXPECT_EQ(ShardOf(*mix, 0), all);
  EXPECT_NE(ShardOf(*mix, 0, 1), all);
}

TEST(MixDatasetTest, DrawsByWeight) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto mix,
      MixDataset::Create(
          Several(CountingUp(0, 100'000, 1), CountingUp(1'000'000, 100'000, 1),
                  CountingUp(2'000'000, 5, 1)),
          Always({1, 3, 0})));
  std::vector<int64_t> all = ShardOf(*mix, 0);
  EXPECT_THAT(all, SizeIs(200'000));  // None of weight 0.
  int64_t of_first = 0;
  for (int64_t i = 0; i < 40'000; ++i) {
    if (all[static_cast<size_t>(i)] < 1'000'000) ++of_first;
  }
  // Binomial: mean 10,000, deviation 87; 6 of them.
  EXPECT_NEAR(static_cast<double>(of_first), 10'000, 522);
}

TEST(MixDatasetTest, WeightsMayChangeWithTheEpoch) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto mix,
      MixDataset::Create(Several(CountingUp(0, 2), CountingUp(100, 2)),
                         [](int64_t epoch) {
                           return epoch == 0 ? std::vector<double>{1, 0}
                                             : std::vector<double>{0, 1};
                         }));
  EXPECT_THAT(ShardOf(*mix, 0, 0), ElementsAre(0, 1));
  EXPECT_THAT(ShardOf(*mix, 0, 1), ElementsAre(100, 101));
}

TEST(MixDatasetTest, AMemberThatOpensNoStreamIsAnError) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto mix,
      MixDataset::Create(WithOneThatOpensNothing(), Always({1, 1})));
  EXPECT_THAT(mix->Open(0, 0),
              StatusIs(StatusCode::kInternal, HasSubstr("null pointer")));
}

TEST(MixDatasetTest, TheDrawsStayTheSameInAllVersions) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto mix,
      MixDataset::Create(Several(CountingUp(0, 8), CountingUp(100, 8)),
                         Always({1, 1})));
  EXPECT_THAT(ShardOf(*mix, 0), ElementsAre(100, 0, 101, 102, 103, 104, 1, 2,
                                            105, 3, 106, 107, 4, 5, 6, 7));
}

TEST(MixDatasetTest, RefusesBadWeights) {
  const double bad[] = {-1, std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::quiet_NaN()};
  for (const double weight : bad) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto mix,
        MixDataset::Create(Several(CountingUp(0, 2), CountingUp(9, 2)),
                           Always({1, weight})));
    EXPECT_THAT(mix->Open(0, 0), StatusIs(StatusCode::kInvalidArgument,
                                          HasSubstr("of dataset 1")));
  }
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto mix,
      MixDataset::Create(Several(CountingUp(0, 2), CountingUp(9, 2)),
                         Always({1})));
  EXPECT_THAT(mix->Open(0, 7),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("1 weights in epoch 7; want one "
                                 "for each of 2 datasets")));
  constexpr double kMost = std::numeric_limits<double>::max();
  for (const auto& weights :
       {std::vector<double>{0, 0}, std::vector<double>{kMost, kMost}}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto without_sum,
        MixDataset::Create(Several(CountingUp(0, 2), CountingUp(9, 2)),
                           Always(weights)));
    EXPECT_THAT(without_sum->Open(0, 0),
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("want a positive, finite sum")));
  }
  EXPECT_THAT(MixDataset::Create(Several(CountingUp(0, 2)), nullptr),
              StatusIs(StatusCode::kInvalidArgument));
}

// ---- TransformIterable ----

absl::Status AddOne(SampleRandom&, Sample& sample) {
  return sample.Set(0, sample.data<int64_t>(0)->front() + 1);
}

TEST(TransformIterableTest, InPlace) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      TransformIterable::Create(std::make_unique<CountingUp>(0, 3), AddOne));
  EXPECT_EQ(dataset->shards(), 2);
  EXPECT_EQ(dataset->open_shards(), 2);
  EXPECT_EQ(dataset->spec().ToString(), "i: int64[]");
  for (int i = 0; i < 2; ++i) {  // Another epoch begins anew.
    EXPECT_THAT(ShardOf(*dataset, 1, i), ElementsAre(1001, 1002, 1003));
  }
}

TEST(TransformIterableTest, IntoOtherFields) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      TransformIterable::Create(
          std::make_unique<CountingUp>(5, 3),
          SampleSpec().Add<int64_t>("twice"),
          [](const Sample& from, SampleRandom&, Sample& to) {
            return to.Set("twice", 2 * from.data<const int64_t>(0)->front());
          }));
  EXPECT_EQ(dataset->spec().ToString(), "twice: int64[]");
  EXPECT_THAT(ShardOf(*dataset, 0), ElementsAre(10, 12, 14));
  EXPECT_THAT(ShardOf(*dataset, 1), ElementsAre(2010, 2012, 2014));
}

TEST(TransformIterableTest, DrawsAfterTheStreamFromTheSameNumbers) {
  const auto draw = [](SampleRandom& random, Sample& sample) {
    return sample.Set(0, static_cast<int64_t>(random.UniformInt(1'000'000)));
  };
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      TransformIterable::Create(std::make_unique<CountingUp>(0, 3), draw));
  const std::vector<int64_t> drawn = ShardOf(*dataset, 0);
  for (int64_t n = 0; n < 3; ++n) {
    SampleRandom random(1, 0, PositionInShard(0, n));
    EXPECT_EQ(drawn[static_cast<size_t>(n)], random.UniformInt(1'000'000));
  }
  EXPECT_NE(ShardOf(*dataset, 0, 1), drawn);
}

TEST(TransformIterableTest, ErrorsOfBothAreThoseOfTheSample) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto fails,
      TransformIterable::Create(
          std::make_unique<CountingUp>(0, 3),
          [](SampleRandom& random, Sample& sample) -> absl::Status {
            if (sample.data<int64_t>(0)->front() == 1) {
              return absl::DataLossError("one");
            }
            return AddOne(random, sample);
          }));
  EXPECT_THAT(ShardOf(*fails, 0), ElementsAre(1, -1));
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto cannot_open,
      TransformIterable::Create(std::make_unique<CountingUp>(0, -1), AddOne));
  EXPECT_THAT(cannot_open->Open(0, 0), StatusIs(StatusCode::kNotFound));
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto opens_nothing,
      TransformIterable::Create(std::make_unique<OpensNothing>(), AddOne));
  EXPECT_THAT(opens_nothing->Open(0, 0),
              StatusIs(StatusCode::kInternal, HasSubstr("null pointer")));
}

TEST(TransformIterableTest, RefusesMissingParts) {
  EXPECT_THAT(TransformIterable::Create(nullptr, AddOne),
              StatusIs(StatusCode::kInvalidArgument,
                       "TransformIterable::Create(): the dataset is null"));
  EXPECT_THAT(TransformIterable::Create(std::make_unique<CountingUp>(0, 3),
                                        TransformIterable::InPlace()),
              StatusIs(StatusCode::kInvalidArgument,
                       "TransformIterable::Create(): the function is null"));
  EXPECT_THAT(TransformIterable::Create(
                  std::make_unique<CountingUp>(0, 3), SampleSpec(),
                  [](const Sample&, SampleRandom&, Sample&) {
                    return absl::OkStatus();
                  }),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("a sample needs a field")));
  EXPECT_THAT(TransformStream::Create(nullptr, AddOne),
              StatusIs(StatusCode::kInvalidArgument,
                       "TransformStream::Create(): the stream is null"));
}

}  // namespace
}  // namespace tenon::loader
