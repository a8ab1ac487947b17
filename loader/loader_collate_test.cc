// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fields whose shape differs from sample to sample, strings, a function of the
// user, and samples without a batch dimension: by every kind of worker.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/window_shuffle.h"
#include "tenon/loader/datasets/concat_dataset.h"
#include "tenon/loader/datasets/stack_dataset.h"
#include "tenon/loader/datasets/subset_dataset.h"
#include "tenon/loader/datasets/transform_dataset.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/worker/collate_batch.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kRow = 8;

std::string NameOf(int64_t i) {
  return i % 4 == 0 ? "" : absl::StrCat("item-", i);
}

// Item i: value = i; ids = i % 5 times i; boxes = i % 3 rows of 4 times i;
// tokens = 1 + i % 4 times i; name; image [2, 1 + i / 4] of i; wave [i] of 1s,
// of which sums is the number.
class Varied : public Dataset {
 public:
  explicit Varied(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  SampleSpec spec() const override {
    return SampleSpec()
        .Add<int64_t>("value")
        .AddPadded<int64_t>("ids", -1)
        .AddRagged<float>("boxes", {4})
        .AddPacked<int32_t>("tokens", kRow, 0)
        .AddText("name")
        .AddStacked<float>("image")
        .AddInput<float>("wave")
        .AddOutput<double>("sums");
  }
  absl::Status Get(int64_t index, SampleRandom&, Sample& sample) override {
    TENON_RETURN_IF_ERROR(Fill<int64_t>(sample, "ids", {index % 5}, index));
    TENON_RETURN_IF_ERROR(Fill<float>(sample, "boxes", {index % 3, 4}, index));
    TENON_RETURN_IF_ERROR(
        Fill<int32_t>(sample, "tokens", {1 + index % 4}, index));
    TENON_RETURN_IF_ERROR(sample.SetText("name", NameOf(index)));
    TENON_RETURN_IF_ERROR(
        Fill<float>(sample, "image", {2, 1 + index / 4}, index));
    TENON_RETURN_IF_ERROR(Fill<float>(sample, "wave", {index}, 1));
    return sample.Set("value", index);
  }
  absl::Status Collate(Collation& batch) override {
    TENON_ASSIGN_OR_RETURN(const std::vector<Tensor> waves,
                           batch.samples("wave"));
    TENON_ASSIGN_OR_RETURN(const Tensor sums,
                           batch.Create("sums", {batch.size()}));
    TENON_ASSIGN_OR_RETURN(const absl::Span<double> to, sums.data<double>());
    for (size_t i = 0; i < waves.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(const absl::Span<const float> wave,
                             waves[i].data<const float>());
      to[i] = std::accumulate(wave.begin(), wave.end(), 0.0);
    }
    return absl::OkStatus();
  }

 private:
  template <typename T>
  static absl::Status Fill(Sample& sample, const char* field,
                           const std::vector<int64_t>& shape, int64_t value) {
    TENON_ASSIGN_OR_RETURN(const absl::Span<T> to,
                           sample.Allocate<T>(field, shape));
    std::fill(to.begin(), to.end(), static_cast<T>(value));
    return absl::OkStatus();
  }

  int64_t size_;
};
TENON_LOADER_DATASET(Varied(int64_t));

// The same by GetBatch() alone.
class VariedBulk : public Varied {
 public:
  using Varied::Varied;
  absl::Status Get(int64_t, SampleRandom&, Sample&) override {
    return absl::InternalError("Get() was called");
  }
  absl::Status GetBatch(absl::Span<const int64_t> indices,
                        SampleBatch& samples) override {
    for (int64_t i = 0; i < samples.size(); ++i) {
      SampleRandom random = samples.random(i);
      Sample sample = samples.sample(i);
      TENON_RETURN_IF_ERROR(
          Varied::Get(indices[static_cast<size_t>(i)], random, sample));
    }
    return absl::OkStatus();
  }
};
TENON_LOADER_DATASET(VariedBulk(int64_t));

// The same by a thread for each sample of a batch.
class VariedThreads : public Varied {
 public:
  using Varied::Varied;
  absl::Status GetBatch(absl::Span<const int64_t> indices,
                        SampleBatch& samples) override {
    std::vector<absl::Status> made(indices.size());
    {
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < indices.size(); ++i) {
        threads.emplace_back([&, i] {
          SampleRandom random = samples.random(static_cast<int64_t>(i));
          Sample sample = samples.sample(static_cast<int64_t>(i));
          made[i] = Get(indices[i], random, sample);
        });
      }
    }
    for (const absl::Status& status : made) TENON_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }
};
TENON_LOADER_DATASET(VariedThreads(int64_t));

// Item i: a text of i * bytes letters; item 5 also does `fault`.
class Texts : public Dataset {
 public:
  Texts(int64_t bytes, std::string fault)
      : bytes_(bytes), fault_(std::move(fault)) {}
  int64_t size() const override { return 12; }
  SampleSpec spec() const override {
    SampleSpec spec;
    spec.Add<float>("pair", {2}).AddText("text").AddStacked<float>("image");
    if (fault_.starts_with("collate")) spec.AddOutput<float>("made");
    return spec;
  }
  absl::Status Get(int64_t index, SampleRandom&, Sample& sample) override {
    const bool bad = index == 5;
    const int64_t pair = bad && fault_ == "fixed" ? 3 : 2;
    TENON_RETURN_IF_ERROR(sample.Allocate<float>("pair", {pair}).status());
    const int64_t width = bad && fault_ == "shape" ? 5 : 4;
    TENON_RETURN_IF_ERROR(sample.Allocate<float>("image", {3, width}).status());
    if (bad && fault_ == "unwritten") return absl::OkStatus();
    if (bad && fault_ == "huge") {
      return sample.Allocate<float>("image", {int64_t{1} << 46}).status();
    }
    return sample.SetText("text",
                          std::string(static_cast<size_t>(index * bytes_),
                                      static_cast<char>('a' + index)));
  }
  absl::Status Collate(Collation& batch) override {
    if (fault_ == "collate fails") return absl::DataLossError("no way");
    if (fault_ == "collate throws") throw std::runtime_error("on fire");
    if (fault_ == "collate samples") return batch.samples("pair").status();
    if (fault_ == "collate other") return batch.Create("text", {1}).status();
    if (fault_ == "collate twice") {
      TENON_RETURN_IF_ERROR(batch.Create("made", {1}).status());
      return batch.Create("made", {1}).status();
    }
    return absl::OkStatus();
  }

 private:
  int64_t bytes_;
  std::string fault_;
};
TENON_LOADER_DATASET(Texts(int64_t, std::string));

// Has a function of which it knows nothing.
class NoFunction : public Texts {
 public:
  NoFunction() : Texts(1, "collate") {}
  absl::Status Collate(Collation& batch) override {
    return Dataset::Collate(batch);
  }
};
TENON_LOADER_DATASET(NoFunction());

// The samples of Varied in another order, through the datasets of datasets.
class Composed : public Dataset {
 public:
  Composed() {
    std::vector<std::unique_ptr<Dataset>> parts;
    parts.push_back(std::make_unique<Varied>(8));
    parts.push_back(std::make_unique<Varied>(8));
    auto both = *ConcatDataset::Create(std::move(parts));
    auto some = *SubsetDataset::Create(std::move(both), {12, 13, 14, 15});
    dataset_ = *TransformDataset::Create(
        std::move(some),
        [](SampleRandom&, Sample&) { return absl::OkStatus(); });
  }
  int64_t size() const override { return dataset_->size(); }
  SampleSpec spec() const override { return dataset_->spec(); }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    return dataset_->Get(index, random, sample);
  }
  absl::Status Collate(Collation& batch) override {
    return dataset_->Collate(batch);
  }

 private:
  std::unique_ptr<Dataset> dataset_;
};
TENON_LOADER_DATASET(Composed());

// 30 words of 1 to 30 letters, of which 4 are kept.
class Words : public IterableDataset {
 public:
  SampleSpec spec() const override { return SampleSpec().AddText("word"); }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t,
                                                     int64_t) override {
    class Stream : public SampleStream {
     public:
      absl::StatusOr<bool> Next(SampleRandom&, Sample& sample) override {
        if (next_ > 30) return false;
        TENON_RETURN_IF_ERROR(sample.SetText("word", std::string(next_, 'a')));
        ++next_;
        return true;
      }

     private:
      size_t next_ = 1;
    };
    return WindowShuffle::Create(std::make_unique<Stream>(), spec(), 4);
  }
};
TENON_LOADER_DATASET(Words());

class LoaderCollateTest : public LoaderTest {
 protected:
  // The batches of an epoch, or their errors.
  static std::vector<absl::StatusOr<Batch>> Run(Loader& loader) {
    std::vector<absl::StatusOr<Batch>> batches;
    for (absl::StatusOr<Batch>& batch : loader.Epoch(0)) {
      batches.push_back(std::move(batch));
    }
    return batches;
  }
  static absl::Span<const int64_t> ShapeOf(const Tensor& tensor) {
    return tensor.spec().shape();
  }
};

INSTANTIATE_TEST_SUITE_P(
    Workers, LoaderCollateTest,
    ::testing::Combine(::testing::Values(0, 1, 2, 5),
                       ::testing::Values(SharingStrategy::kFileDescriptor),
                       ::testing::Values(WorkerKind::kProcess)),
    LoaderCaseName);
INSTANTIATE_TEST_SUITE_P(
    Threads, LoaderCollateTest,
    ::testing::Combine(::testing::Values(2),
                       ::testing::Values(SharingStrategy::kFileSystem),
                       ::testing::Values(WorkerKind::kThread)),
    LoaderCaseName);

// What a batch of Varied has of items [first, last).
void ExpectVaried(const Batch& batch, int64_t first, int64_t last) {
  std::vector<int64_t> values, ids, lengths, box_offsets = {0};
  std::vector<float> boxes, images;
  std::vector<double> sums;
  int64_t longest = 0;
  for (int64_t i = first; i < last; ++i) longest = std::max(longest, i % 5);
  for (int64_t i = first; i < last; ++i) {
    values.push_back(i);
    sums.push_back(static_cast<double>(i));
    lengths.push_back(i % 5);
    for (int64_t k = 0; k < longest; ++k) ids.push_back(k < i % 5 ? i : -1);
    boxes.insert(boxes.end(), static_cast<size_t>(i % 3 * 4),
                 static_cast<float>(i));
    box_offsets.push_back(std::ssize(boxes) / 4);
    images.insert(images.end(), static_cast<size_t>(2 * (1 + i / 4)),
                  static_cast<float>(i));
  }
  ASSERT_EQ(batch.size(), last - first);
  EXPECT_THAT(batch.data<int64_t>("value"),
              IsOkAndHolds(ElementsAreArray(values)));
  EXPECT_THAT(batch.data<int64_t>("ids"), IsOkAndHolds(ElementsAreArray(ids)));
  EXPECT_EQ(batch.tensor("ids")->spec().shape(),
            absl::Span<const int64_t>({last - first, longest}));
  EXPECT_THAT(batch.data<int64_t>("ids.lengths"),
              IsOkAndHolds(ElementsAreArray(lengths)));
  EXPECT_THAT(batch.data<float>("boxes"),
              IsOkAndHolds(ElementsAreArray(boxes)));
  EXPECT_THAT(batch.data<int64_t>("boxes.offsets"),
              IsOkAndHolds(ElementsAreArray(box_offsets)));
  EXPECT_THAT(batch.data<float>("image"),
              IsOkAndHolds(ElementsAreArray(images)));
  EXPECT_EQ(batch.tensor("image")->spec().shape(),
            absl::Span<const int64_t>({last - first, 2, 1 + first / 4}));
  EXPECT_THAT(batch.data<double>("sums"), IsOkAndHolds(ElementsAreArray(sums)));
  for (int64_t i = first; i < last; ++i) {
    EXPECT_THAT(batch.text("name", i - first), IsOkAndHolds(NameOf(i)));
  }
  EXPECT_THAT(batch.tensor("wave"), StatusIs(StatusCode::kNotFound));
}

TEST_P(LoaderCollateTest, ShapesDifferFromSampleToSample) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Varied>(Options(4), 22));
  const auto batches = Run(*loader);
  ASSERT_THAT(batches, SizeIs(6));
  for (int64_t n = 0; n < 6; ++n) {
    const absl::StatusOr<Batch>& batch = batches[static_cast<size_t>(n)];
    ASSERT_THAT(batch, IsOk());
    ExpectVaried(*batch, 4 * n, std::min<int64_t>(4 * n + 4, 22));
  }
  // Items 4 to 7: tokens of lengths 1, 2, 3, 4, in rows of 8.
  EXPECT_THAT(batches[1]->data<int32_t>("tokens"),
              IsOkAndHolds(ElementsAre(4, 5, 5, 6, 6, 6, 0, 0,  //
                                       7, 7, 7, 7, 0, 0, 0, 0)));
  EXPECT_THAT(batches[1]->data<int32_t>("tokens.segments"),
              IsOkAndHolds(ElementsAre(1, 2, 2, 3, 3, 3, 0, 0,  //
                                       1, 1, 1, 1, 0, 0, 0, 0)));
  EXPECT_THAT(batches[1]->data<int32_t>("tokens.positions"),
              IsOkAndHolds(ElementsAre(0, 0, 1, 0, 1, 2, 0, 0,  //
                                       0, 1, 2, 3, 0, 0, 0, 0)));
}

TEST_P(LoaderCollateTest, GetBatchWritesTheSame) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<VariedBulk>(Options(4), 22));
  const auto batches = Run(*loader);
  ASSERT_THAT(batches, SizeIs(6));
  for (int64_t n = 0; n < 6; ++n) {
    const absl::StatusOr<Batch>& batch = batches[static_cast<size_t>(n)];
    ASSERT_THAT(batch, IsOk());
    ExpectVaried(*batch, 4 * n, std::min<int64_t>(4 * n + 4, 22));
  }
}

TEST_P(LoaderCollateTest, SamplesAreMadeInSeveralThreads) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<VariedThreads>(Options(8), 64));
  const auto batches = Run(*loader);
  ASSERT_THAT(batches, SizeIs(8));
  for (const absl::StatusOr<Batch>& batch : batches) {
    // Of two shapes of images.
    EXPECT_THAT(batch, StatusIs(StatusCode::kInvalidArgument,
                                HasSubstr("field 'image'")));
  }
  TENON_ASSERT_OK_AND_ASSIGN(loader,
                             Loader::Create<VariedThreads>(Options(4), 64));
  int64_t first = 0;
  for (const absl::StatusOr<Batch>& batch : loader->Epoch(0)) {
    ASSERT_THAT(batch, IsOk());
    ExpectVaried(*batch, first, first + 4);
    first += 4;
  }
  EXPECT_EQ(first, 64);
}

TEST_P(LoaderCollateTest, DatasetsOfDatasets) {
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Composed>(Options(4)));
  const auto batches = Run(*loader);
  ASSERT_THAT(batches, SizeIs(1));
  ASSERT_THAT(batches[0], IsOk());
  ExpectVaried(*batches[0], 4, 8);
  std::vector<std::unique_ptr<Dataset>> parts;
  parts.push_back(std::make_unique<Varied>(8));
  EXPECT_THAT(StackDataset::Create(std::move(parts)),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("has field 'wave' for its own Collate()")));
}

TEST_P(LoaderCollateTest, AStreamOfStringsIsShuffled) {
  for (const std::optional<int64_t> batch_size :
       {std::optional<int64_t>(7), std::optional<int64_t>()}) {
    LoaderOptions options = Options();
    options.batch_size = batch_size;
    TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Words>(options));
    std::vector<size_t> lengths;
    const auto batches = Run(*loader);
    EXPECT_THAT(batches, SizeIs(batch_size ? 5 : 30));
    for (const absl::StatusOr<Batch>& batch : batches) {
      ASSERT_THAT(batch, IsOk());
      for (int64_t i = 0; i < batch->size(); ++i) {
        TENON_ASSERT_OK_AND_ASSIGN(const absl::string_view word,
                                   batch->text("word", i));
        EXPECT_EQ(word, std::string(word.size(), 'a'));
        lengths.push_back(word.size());
      }
    }
    EXPECT_FALSE(std::is_sorted(lengths.begin(), lengths.end()));
    std::sort(lengths.begin(), lengths.end());
    std::vector<size_t> all(30);
    std::iota(all.begin(), all.end(), 1);
    EXPECT_EQ(lengths, all);
  }
}

TEST_P(LoaderCollateTest, BatchesGrowAndOutliveTheLoader) {
  std::vector<absl::StatusOr<Batch>> batches;
  {
    // Up to 770 kB each, where the first has 10 kB.
    TENON_ASSERT_OK_AND_ASSIGN(
        auto loader, Loader::Create<Texts>(Options(2), 70'000, "none"));
    batches = Run(*loader);
  }
  ASSERT_THAT(batches, SizeIs(6));
  for (int64_t i = 0; i < 12; ++i) {
    const absl::StatusOr<Batch>& batch = batches[static_cast<size_t>(i / 2)];
    ASSERT_THAT(batch, IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const absl::string_view text,
                               batch->text("text", i % 2));
    EXPECT_EQ(text, std::string(static_cast<size_t>(i) * 70'000,
                                static_cast<char>('a' + i)));
  }
}

TEST_P(LoaderCollateTest, ShapesThatDoNotMatchAreErrorsOfTheSample) {
  const auto refused = [&](const char* fault, const auto& why) {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Texts>(Options(4), 1, fault));
    const auto batches = Run(*loader);
    ASSERT_THAT(batches, SizeIs(3));
    EXPECT_THAT(batches[0], IsOk());
    EXPECT_THAT(batches[1].status(),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("sample 5 (item 5): "), why)));
    EXPECT_THAT(batches[2], IsOk());
  };
  refused("shape", AllOf(HasSubstr("'image' is float32[3, 5]"),
                         HasSubstr("its batch is float32[3, 4]")));
  refused("fixed", AllOf(HasSubstr("'pair' cannot have shape [3]"),
                         HasSubstr("every sample has [2]")));
  refused("unwritten", HasSubstr("field 'text' was not written"));
}

TEST_P(LoaderCollateTest, ASampleWithoutMemoryFailsAlone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends a process that asks for so much";
#endif
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Texts>(Options(4), 9000, "huge"));
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    const auto batches = Run(*loader);
    ASSERT_THAT(batches, SizeIs(3));
    EXPECT_THAT(batches[0], IsOk());
    EXPECT_THAT(batches[1].status(),
                StatusIs(StatusCode::kResourceExhausted,
                         HasSubstr("sample 5 (item 5): Sample::Allocate()")));
    EXPECT_THAT(batches[2], IsOk());
  }
}

TEST(NextBlockBytesTest, GrowsAtOnceAndShrinksSlowly) {
  EXPECT_EQ(NextBlockBytes(1000, 4000), 5000u);
  EXPECT_EQ(NextBlockBytes(5000, 4000), 5000u);
  EXPECT_EQ(NextBlockBytes(5000, 4500), 5000u);
  size_t block = NextBlockBytes(1000, 1 << 30);
  for (int i = 0; i < 4; ++i) block = NextBlockBytes(block, 1000);
  EXPECT_GT(block, size_t{1} << 30);
  for (int i = 0; i < 600; ++i) block = NextBlockBytes(block, 1000);
  EXPECT_GE(block, 1250u);
  EXPECT_LT(block, 1300u);
}

TEST_P(LoaderCollateTest, ASampleOfAnotherShapeCanBeSkipped) {
  LoaderOptions options = Options(4);
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Texts>(options, 1, "shape"));
  const auto batches = Run(*loader);
  ASSERT_THAT(batches, SizeIs(3));
  ASSERT_THAT(batches[1], IsOk());
  const Batch& batch = *batches[1];
  EXPECT_EQ(batch.size(), 3);
  ASSERT_THAT(batch.skipped(), SizeIs(1));
  EXPECT_EQ(batch.skipped()[0].index, 5);
  EXPECT_EQ(ShapeOf(*batch.tensor("image")),
            absl::Span<const int64_t>({3, 3, 4}));
  EXPECT_THAT(batch.text("text", 0), IsOkAndHolds("eeee"));
  EXPECT_THAT(batch.text("text", 1), IsOkAndHolds("gggggg"));
}

TEST_P(LoaderCollateTest, ABatchOfWhichAllSamplesWereSkipped) {
  LoaderOptions options = Options(1);
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Texts>(options, 1, "fixed"));
  const auto batches = Run(*loader);
  ASSERT_THAT(batches, SizeIs(12));
  ASSERT_THAT(batches[5], IsOk());
  const Batch& batch = *batches[5];
  EXPECT_EQ(batch.size(), 0);
  EXPECT_THAT(batch.data<float>("image"), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(batch.data<uint8_t>("text"), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(batch.data<int64_t>("text.offsets"),
              IsOkAndHolds(ElementsAre(0)));
  EXPECT_THAT(batch.text("text", 0), StatusIs(StatusCode::kOutOfRange));
}

TEST_P(LoaderCollateTest, AFunctionThatFailsIsTheErrorOfItsBatch) {
  const auto fails = [&](const char* fault, StatusCode code, const char* why) {
    TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                               Loader::Create<Texts>(Options(6), 1, fault));
    const auto batches = Run(*loader);
    ASSERT_THAT(batches, SizeIs(2));
    for (const auto& batch : batches) {
      EXPECT_THAT(batch.status(),
                  StatusIs(code, AllOf(HasSubstr("Dataset::Collate()"),
                                       HasSubstr(why))));
    }
  };
  fails("collate fails", StatusCode::kDataLoss, "no way");
  fails("collate throws", StatusCode::kInternal, "threw: on fire");
  fails("collate nothing", StatusCode::kInvalidArgument,
        "has not made field 'made'");
  fails("collate samples", StatusCode::kInvalidArgument,
        "field 'pair' has no tensors of samples");
  fails("collate other", StatusCode::kInvalidArgument,
        "field 'text' is not one of SampleSpec::AddOutput()");
  fails("collate twice", StatusCode::kFailedPrecondition,
        "field 'made' has been made already");
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<NoFunction>(Options(12)));
  EXPECT_THAT(Run(*loader),
              ElementsAre(StatusIs(StatusCode::kUnimplemented,
                                   HasSubstr("does not override Collate()"))));
}

TEST_P(LoaderCollateTest, SamplesWithoutABatchDimension) {
  LoaderOptions options = Options();
  options.batch_size = std::nullopt;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader, Loader::Create<Varied>(options, 9));
  EXPECT_EQ(loader->batches(), 9);
  const auto batches = Run(*loader);
  ASSERT_THAT(batches, SizeIs(9));
  for (int64_t i = 0; i < 9; ++i) {
    ASSERT_THAT(batches[static_cast<size_t>(i)], IsOk());
    const Batch& batch = *batches[static_cast<size_t>(i)];
    EXPECT_EQ(batch.size(), 1);
    EXPECT_EQ(batch.number(), i);
    EXPECT_THAT(ShapeOf(*batch.tensor("value")), IsEmpty());
    EXPECT_THAT(batch.data<int64_t>("value"), IsOkAndHolds(ElementsAre(i)));
    EXPECT_THAT(ShapeOf(*batch.tensor("ids")), ElementsAre(i % 5));
    EXPECT_THAT(ShapeOf(*batch.tensor("boxes")), ElementsAre(i % 3, 4));
    EXPECT_THAT(ShapeOf(*batch.tensor("tokens")), ElementsAre(1 + i % 4));
    EXPECT_THAT(ShapeOf(*batch.tensor("image")), ElementsAre(2, 1 + i / 4));
    EXPECT_THAT(batch.text("name", 0), IsOkAndHolds(NameOf(i)));
    EXPECT_THAT(batch.data<double>("sums"), IsOkAndHolds(ElementsAre(i)));
    EXPECT_THAT(batch.tensor("ids.lengths"), StatusIs(StatusCode::kNotFound));
  }
}

TEST_P(LoaderCollateTest, ASkippedSampleWithoutABatchDimension) {
  LoaderOptions options = Options();
  options.batch_size = std::nullopt;
  options.on_sample_error = OnSampleError::kSkip;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create<Texts>(options, 1, "fixed"));
  const auto batches = Run(*loader);
  ASSERT_THAT(batches, SizeIs(12));
  ASSERT_THAT(batches[5], IsOk());
  EXPECT_EQ(batches[5]->size(), 0);
  EXPECT_THAT(batches[5]->skipped(), SizeIs(1));
  for (const char* field : {"pair", "text", "image"}) {
    EXPECT_THAT(batches[5]->tensor(field),
                StatusIs(StatusCode::kFailedPrecondition,
                         HasSubstr("the sample was skipped")));
  }
  EXPECT_THAT(batches[6]->text("text", 0), IsOkAndHolds("gggggg"));
}

}  // namespace
}  // namespace tenon::loader
