// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Datasets by index that are made of others.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/datasets/concat_dataset.h"
#include "tenon/loader/datasets/stack_dataset.h"
#include "tenon/loader/datasets/subset_dataset.h"
#include "tenon/loader/datasets/tensor_dataset.h"
#include "tenon/loader/datasets/transform_dataset.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Item i: first + i in field `name`, by number.
class From : public Dataset {
 public:
  From(std::string name, int64_t first, int64_t size)
      : name_(std::move(name)), first_(first), size_(size) {}
  int64_t size() const override { return size_; }
  SampleSpec spec() const override { return SampleSpec().Add<int64_t>(name_); }
  absl::Status Get(int64_t index, SampleRandom&, Sample& sample) override {
    EXPECT_LT(index, size_);
    if (first_ + index == 13) return absl::DataLossError("unlucky");
    return sample.Set(0, first_ + index);
  }

 private:
  std::string name_;
  int64_t first_;
  int64_t size_;
};

class NoIndex : public IterableDataset {
 public:
  SampleSpec spec() const override { return SampleSpec().Add<int64_t>("i"); }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t,
                                                     int64_t) override {
    return absl::UnimplementedError("");
  }
};

std::unique_ptr<Dataset> Ints(int64_t first, int64_t size,
                              std::string name = "i") {
  return std::make_unique<From>(std::move(name), first, size);
}

template <typename... D>
std::vector<std::unique_ptr<Dataset>> List(D... datasets) {
  std::vector<std::unique_ptr<Dataset>> list;
  (list.push_back(std::move(datasets)), ...);
  return list;
}

// A field of item `index`, and its error.
template <typename T>
absl::StatusOr<std::vector<T>> FieldOf(Dataset& dataset, int64_t index,
                                       absl::string_view name) {
  const BatchLayout layout = *BatchLayout::Create(dataset.spec(), 1);
  std::vector<std::byte> memory(static_cast<size_t>(layout.total_bytes()));
  SampleRandom random(1, 2, index);
  Sample sample(layout, memory.data(), 0, 1);
  const absl::Status status = dataset.Get(index, random, sample);
  if (!status.ok()) return status;
  const auto values = *sample.data<T>(name);
  return std::vector<T>(values.begin(), values.end());
}

std::vector<int64_t> AllOfInts(Dataset& dataset) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    all.push_back(FieldOf<int64_t>(dataset, i, "i")->front());
  }
  return all;
}

// ---- TensorDataset ----

Tensor Counting(std::vector<int64_t> shape) {
  const Tensor tensor = *Tensor::Create(kDtypeOf<int64_t>, shape);
  const auto values = *tensor.data<int64_t>();
  std::iota(values.begin(), values.end(), 0);
  return tensor;
}

TEST(TensorDatasetTest, SamplesAreRows) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      TensorDataset::Create({"pair", "i"}, {Counting({5, 2}), Counting({5})}));
  EXPECT_EQ(dataset->size(), 5);
  EXPECT_EQ(dataset->spec().ToString(), "pair: int64[2], i: int64[]");
  EXPECT_THAT(AllOfInts(*dataset), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(FieldOf<int64_t>(*dataset, 3, "pair"),
              IsOkAndHolds(ElementsAre(6, 7)));
}

TEST(TensorDatasetTest, OfStridedTensors) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor turned,
                             Counting({2, 3}).Transpose(0, 1));
  TENON_ASSERT_OK_AND_ASSIGN(const auto dataset,
                             TensorDataset::Create({"i"}, {turned}));
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_THAT(FieldOf<int64_t>(*dataset, 1, "i"),
              IsOkAndHolds(ElementsAre(1, 4)));
}

TEST(TensorDatasetTest, IsRegisteredWithItsTensors) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto recipe,
      DatasetRecipe::Of<TensorDataset>(std::vector<std::string>{"i"},
                                       std::vector<Tensor>{Counting({4})}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto dataset, recipe.Make());
  EXPECT_THAT(AllOfInts(*dataset), ElementsAre(0, 1, 2, 3));
}

TEST(TensorDatasetTest, WithoutRows) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto dataset,
                             TensorDataset::Create({"i"}, {Counting({0, 3})}));
  EXPECT_EQ(dataset->size(), 0);
}

TEST(TensorDatasetTest, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::vector<std::string>& names,
                          const std::vector<Tensor>& tensors, const char* why) {
    EXPECT_THAT(TensorDataset::Create(names, tensors),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused({}, {}, "there are no tensors");
  refused({"a"}, {Counting({2}), Counting({2})}, "1 names for 2 tensors");
  refused({"a", "b"}, {Counting({2}), Counting({3})},
          "'b' has 3 rows, 'a' has 2");
  refused({"a"}, {Counting({})}, "'a' is a scalar");
  EXPECT_THAT(TensorDataset::Create({"a", "a"}, {Counting({2}), Counting({2})}),
              StatusIs(StatusCode::kInvalidArgument));
}

// ---- ConcatDataset ----

TEST(ConcatDatasetTest, OneAfterTheOther) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      ConcatDataset::Create(
          List(Ints(0, 3), Ints(5, 0), Ints(100, 1), Ints(200, 2))));
  EXPECT_EQ(dataset->size(), 6);
  EXPECT_THAT(AllOfInts(*dataset), ElementsAre(0, 1, 2, 100, 200, 201));
}

TEST(ConcatDatasetTest, RefusesOtherFields) {
  EXPECT_THAT(ConcatDataset::Create(List(Ints(0, 3), Ints(0, 3, "j"))),
              StatusIs(StatusCode::kInvalidArgument,
                       "ConcatDataset::Create(): dataset 1 has the fields j: "
                       "int64[], dataset 0 has i: int64[]"));
  EXPECT_THAT(ConcatDataset::Create({}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(ConcatDataset::Create(List(Ints(0, 3), nullptr)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("1 is null")));
}

TEST(ConcatDatasetTest, RefusesSizesWithoutASum) {
  EXPECT_THAT(ConcatDataset::Create(
                  List(Ints(0, 3), Ints(0, INT64_MAX - 3), Ints(0, 1))),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("dataset 2 has 1 samples after")));
  EXPECT_THAT(ConcatDataset::Create(List(Ints(0, 3), Ints(0, -1))),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("dataset 1 has -1 samples")));
}

TEST(ConcatDatasetTest, RefusesIterableMembers) {
  EXPECT_THAT(
      ConcatDataset::Create(List(Ints(0, 3), std::make_unique<NoIndex>())),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("dataset 1 is iterable")));
}

// ---- StackDataset ----

TEST(StackDatasetTest, FieldsSideBySide) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      StackDataset::Create(List(Ints(0, 3, "a"), Ints(10, 3, "b"))));
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->spec().ToString(), "a: int64[], b: int64[]");
  EXPECT_THAT(FieldOf<int64_t>(*dataset, 2, "a"), IsOkAndHolds(ElementsAre(2)));
  EXPECT_THAT(FieldOf<int64_t>(*dataset, 2, "b"),
              IsOkAndHolds(ElementsAre(12)));
}

TEST(StackDatasetTest, AnErrorOfAMemberIsThatOfTheSample) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      StackDataset::Create(List(Ints(0, 4, "a"), Ints(10, 4, "b"))));
  EXPECT_THAT(FieldOf<int64_t>(*dataset, 3, "a"),
              StatusIs(StatusCode::kDataLoss, "unlucky"));
}

TEST(StackDatasetTest, RefusesOtherSizesAndTakenNames) {
  EXPECT_THAT(StackDataset::Create(List(Ints(0, 15, "a"), Ints(0, 10, "b"))),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("has 10 samples, dataset 0 has 15")));
  EXPECT_THAT(StackDataset::Create(List(Ints(0, 3, "a"), Ints(0, 3, "a"))),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("two fields have the name 'a'")));
  EXPECT_THAT(StackDataset::Create({}), StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(StackDataset::Create(List(std::make_unique<NoIndex>())),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("iterable")));
}

// ---- SubsetDataset, RandomSplit() ----

TEST(SubsetDatasetTest, HasItsIndices) {
  TENON_ASSERT_OK_AND_ASSIGN(auto subset,
                             SubsetDataset::Create(Ints(100, 9), {8, 2, 2, 0}));
  EXPECT_THAT(AllOfInts(*subset), ElementsAre(108, 102, 102, 100));
  TENON_ASSERT_OK_AND_ASSIGN(const auto of_subset,
                             SubsetDataset::Create(std::move(subset), {3, 0}));
  EXPECT_THAT(AllOfInts(*of_subset), ElementsAre(100, 108));
}

TEST(SubsetDatasetTest, RefusesIndicesOutOfRange) {
  for (const int64_t bad : {-1, 9}) {
    EXPECT_THAT(
        SubsetDataset::Create(Ints(0, 9), {1, bad}),
        StatusIs(StatusCode::kOutOfRange, HasSubstr("is out of range [0, 9)")));
  }
  EXPECT_THAT(SubsetDataset::Create(nullptr, {}),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(SubsetDataset::Create(std::make_unique<NoIndex>(), {}),
              StatusIs(StatusCode::kInvalidArgument));
}

// Writes whole batches alone.
class InBatches : public From {
 public:
  InBatches() : From("i", 100, 9) {}
  absl::Status GetBatch(absl::Span<const int64_t> indices,
                        SampleBatch& samples) override {
    for (int64_t i = 0; i < samples.size(); ++i) {
      const int64_t value = 1000 + indices[static_cast<size_t>(i)];
      EXPECT_THAT(samples.sample(i).Set(0, value), IsOk());
    }
    return absl::OkStatus();
  }
};

TEST(SubsetDatasetTest, GetsWholeBatches) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto subset,
      SubsetDataset::Create(std::make_unique<InBatches>(), {8, 2, 0}));
  const BatchLayout layout = *BatchLayout::Create(subset->spec(), 2);
  std::vector<std::byte> memory(static_cast<size_t>(layout.total_bytes()));
  SampleBatch samples(SampleSpan(layout, memory.data(), 0, 2), 1, 2, 3);
  const int64_t indices[] = {2, 0};
  ASSERT_THAT(subset->GetBatch(indices, samples), IsOk());
  EXPECT_THAT(samples.data<int64_t>("i"),
              IsOkAndHolds(ElementsAre(1000, 1008)));
}

TEST(RandomSplitTest, PartsShareNoSample) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto parts, RandomSplit(10, {3, 0, 7}, 1));
  ASSERT_THAT(parts, ElementsAre(SizeIs(3), SizeIs(0), SizeIs(7)));
  std::vector<int64_t> all = parts[0];
  all.insert(all.end(), parts[2].begin(), parts[2].end());
  std::sort(all.begin(), all.end());
  EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(RandomSplitTest, IsThatOfItsSeed) {
  const auto parts = *RandomSplit(8, {5, 3}, 1);
  EXPECT_THAT(parts[0], ElementsAre(5, 2, 1, 7, 0));
  EXPECT_THAT(parts[1], ElementsAre(4, 6, 3));
  EXPECT_NE(*RandomSplit(100, {50, 50}, 1), *RandomSplit(100, {50, 50}, 2));
}

TEST(RandomSplitTest, LengthsSumUpToTheSize) {
  for (const std::vector<int64_t>& lengths : std::vector<std::vector<int64_t>>{
           {1, 2}, {1, 4}, {5, -1}, {INT64_MAX, INT64_MAX}}) {
    EXPECT_THAT(RandomSplit(4, lengths, 1),
                StatusIs(StatusCode::kInvalidArgument));
  }
}

TEST(SplitLengthsTest, RemainingSamplesGoToTheFirst) {
  EXPECT_THAT(SplitLengths(6, {0.5, 0.5}), IsOkAndHolds(ElementsAre(3, 3)));
  EXPECT_THAT(SplitLengths(3, {0.5, 0.5}), IsOkAndHolds(ElementsAre(2, 1)));
  EXPECT_THAT(SplitLengths(106, {0.1, 0.2, 0.3, 0.4}),
              IsOkAndHolds(ElementsAre(11, 22, 31, 42)));
  EXPECT_THAT(SplitLengths(0, {1}), IsOkAndHolds(ElementsAre(0)));
  EXPECT_THAT(SplitLengths(INT64_MAX, {1}),
              IsOkAndHolds(ElementsAre(INT64_MAX)));
}

TEST(SplitLengthsTest, RefusesOtherSums) {
  for (const std::vector<double>& fractions : std::vector<std::vector<double>>{
           {0.5, 0.4}, {0.5, 0.6}, {1.5, -0.5}, {}}) {
    EXPECT_THAT(SplitLengths(10, fractions),
                StatusIs(StatusCode::kInvalidArgument));
  }
}

// ---- TransformDataset ----

TEST(TransformDatasetTest, InPlace) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      TransformDataset::Create(Ints(0, 3), [](SampleRandom&, Sample& sample) {
        sample.data<int64_t>("i")->front() *= 10;
        return absl::OkStatus();
      }));
  EXPECT_THAT(AllOfInts(*dataset), ElementsAre(0, 10, 20));
}

TEST(TransformDatasetTest, IntoOtherFields) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      TransformDataset::Create(
          Ints(5, 3), SampleSpec().Add<double>("half").Add<double>("random"),
          [](const Sample& from, SampleRandom& random, Sample& to) {
            const auto i = from.data<int64_t>("i")->front();
            EXPECT_THAT(to.Set("random", random.Uniform()), IsOk());
            return to.Set("half", static_cast<double>(i) / 2);
          }));
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_THAT(FieldOf<double>(*dataset, 2, "half"),
              IsOkAndHolds(ElementsAre(3.5)));
  EXPECT_THAT(FieldOf<double>(*dataset, 2, "random"),
              IsOkAndHolds(ElementsAre(SampleRandom(1, 2, 2).Uniform())));
}

TEST(TransformDatasetTest, ErrorsOfBothAreThoseOfTheSample) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      TransformDataset::Create(Ints(12, 3), [](SampleRandom&, Sample& sample) {
        return sample.data<int64_t>("i")->front() == 14
                   ? absl::AbortedError("no")
                   : absl::OkStatus();
      }));
  EXPECT_THAT(FieldOf<int64_t>(*dataset, 0, "i"), IsOk());
  EXPECT_THAT(FieldOf<int64_t>(*dataset, 1, "i"),
              StatusIs(StatusCode::kDataLoss));
  EXPECT_THAT(FieldOf<int64_t>(*dataset, 2, "i"),
              StatusIs(StatusCode::kAborted));
}

// ---- thread_safe() ----

class Safe : public From {
 public:
  using From::From;
  bool thread_safe() const override { return true; }
};

std::unique_ptr<Dataset> SafeInts(std::string name = "i") {
  return std::make_unique<Safe>(std::move(name), 0, 1000);
}

TEST(ThreadSafeTest, ADatasetOfDatasetsIsIfAllOfThemAre) {
  EXPECT_TRUE((*TensorDataset::Create({"i"}, {Counting({5})}))->thread_safe());
  EXPECT_TRUE(
      (*ConcatDataset::Create(List(SafeInts(), SafeInts())))->thread_safe());
  EXPECT_FALSE(
      (*ConcatDataset::Create(List(SafeInts(), Ints(0, 3))))->thread_safe());
  EXPECT_TRUE(
      (*StackDataset::Create(List(SafeInts(), SafeInts("j"))))->thread_safe());
  EXPECT_FALSE((*StackDataset::Create(List(SafeInts(), Ints(0, 1000, "j"))))
                   ->thread_safe());
  EXPECT_TRUE((*SubsetDataset::Create(SafeInts(), {1, 2}))->thread_safe());
  EXPECT_FALSE((*SubsetDataset::Create(Ints(0, 3), {1, 2}))->thread_safe());
}

TEST(ThreadSafeTest, ATransformedOneIsIfItsFunctionIs) {
  const auto same = [](SampleRandom&, Sample&) { return absl::OkStatus(); };
  const auto transform = [&](std::unique_ptr<Dataset> dataset, bool safe) {
    return (*TransformDataset::Create(std::move(dataset), same,
                                      {.thread_safe = safe}))
        ->thread_safe();
  };
  EXPECT_TRUE(transform(SafeInts(), true));
  EXPECT_FALSE(transform(SafeInts(), false));
  EXPECT_FALSE(transform(Ints(0, 3), true));
  EXPECT_FALSE((*TransformDataset::Create(SafeInts(), same))->thread_safe());
}

TEST(ThreadSafeTest, SamplesOfOtherFieldsAreMadeByManyThreads) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto dataset,
      TransformDataset::Create(
          SafeInts(), SampleSpec().Add<int64_t>("twice"),
          [](const Sample& from, SampleRandom&, Sample& to) {
            return to.Set("twice", 2 * from.data<int64_t>("i")->front());
          },
          {.thread_safe = true}));
  ASSERT_TRUE(dataset->thread_safe());
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int64_t first = 0; first < 3; ++first) {
    threads.emplace_back([&, first] {
      for (int64_t i = 100 * first + 20; i < 100 * first + 120; ++i) {
        const auto twice = FieldOf<int64_t>(*dataset, i, "twice");
        if (!twice.ok() || twice->front() != 2 * i) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(TransformDatasetTest, RefusesMissingParts) {
  EXPECT_THAT(TransformDataset::Create(Ints(0, 3), nullptr),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("TransformDataset::Create()"),
                             HasSubstr("function is null"))));
  EXPECT_THAT(
      TransformDataset::Create(
          nullptr, [](SampleRandom&, Sample&) { return absl::OkStatus(); }),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr("dataset is null")));
}

}  // namespace
}  // namespace tenon::loader
