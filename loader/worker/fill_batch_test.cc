// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/fill_batch.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/sample_threads.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Item i: i and a random number. Items 3 and 5 fail.
class Items : public Dataset {
 public:
  int64_t size() const override { return 10; }
  SampleSpec spec() const override {
    return SampleSpec().Add<int64_t>("i").Add<double>("random");
  }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    ++gets;
    if (index == 3) return absl::DataLossError("rotten");
    if (index == 5) throw std::runtime_error("on fire");
    if (index == 6) throw 6;
    EXPECT_THAT(sample.Set("random", random.Uniform()), IsOk());
    return sample.Set("i", index);
  }
  bool thread_safe() const override { return true; }
  std::atomic<int> gets = 0;
};

class BulkItems : public Items {
 public:
  absl::Status GetBatch(absl::Span<const int64_t> indices,
                        SampleBatch& samples) override {
    ++bulks;
    if (fails) return absl::DataLossError("no bulk");
    for (int64_t i = 0; i < samples.size(); ++i) {
      SampleRandom random = samples.random(i);
      Sample sample = samples.sample(i);
      EXPECT_THAT(sample.Set("random", random.Uniform()), IsOk());
      EXPECT_THAT(sample.Set("i", indices[static_cast<size_t>(i)]), IsOk());
    }
    return absl::OkStatus();
  }
  std::atomic<int> bulks = 0;
  bool fails = false;
};

// So many threads; null for one.
std::unique_ptr<SampleThreads> Threads(int size) {
  return size == 1 ? nullptr : *SampleThreads::Create(size);
}

class FillBatchTest : public ::testing::TestWithParam<int> {
 protected:
  absl::StatusOr<FilledBatch> Fill(
      Dataset& dataset, const std::vector<int64_t>& indices,
      OnSampleError on_error = OnSampleError::kFail) {
    return FillBatch(dataset, layout_,
                     {.seed = 1,
                      .epoch = 2,
                      .first_position = 100,
                      .indices = indices,
                      .on_error = on_error,
                      .threads = threads_.get()},
                     memory_.data()->bytes, [&] { return stop_-- == 0; });
  }

  std::vector<int64_t> Values(int64_t size) {
    const auto values =
        SampleSpan(layout_, memory_.data()->bytes, 0, size).data<int64_t>("i");
    return {values->begin(), values->end()};
  }
  std::vector<double> Randoms(int64_t size) {
    const auto values = SampleSpan(layout_, memory_.data()->bytes, 0, size)
                            .data<double>("random");
    return {values->begin(), values->end()};
  }

  const std::unique_ptr<SampleThreads> threads_ = Threads(GetParam());
  Items items_;
  BulkItems bulk_;
  std::atomic<int> stop_ =
      1000;  // Calls of should_stop() until it returns true.
  BatchLayout layout_ = *BatchLayout::Create(items_.spec(), 8);
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory_ = std::vector<Line>(2);
};

INSTANTIATE_TEST_SUITE_P(Threads, FillBatchTest, ::testing::Values(1, 2, 3));

TEST_P(FillBatchTest, WritesSamplesOneAfterTheOther) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto filled, Fill(items_, {9, 0, 4}));
  EXPECT_EQ(filled.samples, 3);
  EXPECT_THAT(filled.skipped, IsEmpty());
  EXPECT_THAT(Values(3), ElementsAre(9, 0, 4));
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Randoms(3)[static_cast<size_t>(i)],
              SampleRandom(1, 2, 100 + i).Uniform());
  }
}

TEST_P(FillBatchTest, BulkGivesTheSameBytes) {
  ASSERT_THAT(Fill(items_, {9, 0, 4}), IsOk());
  const auto values = Values(3);
  const auto randoms = Randoms(3);
  memory_.assign(2, Line());
  TENON_ASSERT_OK_AND_ASSIGN(const auto filled, Fill(bulk_, {9, 0, 4}));
  EXPECT_EQ(filled.samples, 3);
  EXPECT_EQ(bulk_.bulks, GetParam());  // A part in each thread.
  EXPECT_EQ(bulk_.gets, 0);
  EXPECT_EQ(Values(3), values);
  EXPECT_EQ(Randoms(3), randoms);
}

TEST_P(FillBatchTest, SkipsBadSamples) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto filled, Fill(items_, {2, 3, 4, 5, 6, 7},
                                                     OnSampleError::kSkip));
  EXPECT_EQ(filled.samples, 3);
  EXPECT_THAT(Values(3), ElementsAre(2, 4, 7));
  ASSERT_THAT(filled.skipped, SizeIs(3));
  EXPECT_EQ(filled.skipped[0].position, 101);
  EXPECT_EQ(filled.skipped[0].index, 3);
  EXPECT_THAT(filled.skipped[0].status,
              StatusIs(StatusCode::kDataLoss, "rotten"));
  EXPECT_THAT(filled.skipped[1].status,
              StatusIs(StatusCode::kInternal, HasSubstr("on fire")));
  EXPECT_THAT(filled.skipped[2].status,
              StatusIs(StatusCode::kInternal, HasSubstr("no std::exception")));
}

TEST_P(FillBatchTest, ReplacesBadSamplesByTheNextGoodItems) {
  bulk_.fails = true;
  for (Dataset* dataset :
       {static_cast<Dataset*>(&items_), static_cast<Dataset*>(&bulk_)}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto filled,
        Fill(*dataset, {2, 3, 4, 5, 9}, OnSampleError::kReplace));
    EXPECT_EQ(filled.samples, 5);
    EXPECT_THAT(Values(5), ElementsAre(2, 4, 4, 7, 9));
    // Random numbers are those of the place.
    EXPECT_EQ(Randoms(5)[1], SampleRandom(1, 2, 101).Uniform());
    EXPECT_EQ(Randoms(5)[3], SampleRandom(1, 2, 103).Uniform());
    ASSERT_THAT(filled.skipped, SizeIs(2));
    EXPECT_EQ(filled.skipped[0].position, 101);
    EXPECT_EQ(filled.skipped[0].index, 3);
    EXPECT_EQ(filled.skipped[0].replaced_by, 4);
    EXPECT_THAT(filled.skipped[0].status, StatusIs(StatusCode::kDataLoss));
    EXPECT_EQ(filled.skipped[1].index, 5);
    EXPECT_EQ(filled.skipped[1].replaced_by, 7);
  }
}

// All items but the first fail, of which there are `size`.
class OneGood : public Items {
 public:
  explicit OneGood(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  absl::Status Get(int64_t index, SampleRandom&, Sample& sample) override {
    ++gets;
    if (index != 0) return absl::DataLossError("rotten");
    return sample.Set("i", index);
  }

 private:
  int64_t size_;
};

TEST_P(FillBatchTest, AReplacementIsLookedForFromTheEndToTheBeginning) {
  OneGood ten(10);
  TENON_ASSERT_OK_AND_ASSIGN(auto filled,
                             Fill(ten, {8}, OnSampleError::kReplace));
  EXPECT_THAT(Values(1), ElementsAre(0));
  EXPECT_EQ(filled.skipped[0].replaced_by, 0);
  ten.gets = 0;
  EXPECT_THAT(Fill(ten, {1}, OnSampleError::kReplace),
              StatusIs(StatusCode::kDataLoss,
                       "sample 100 (item 1): rotten; of the 8 items after it, "
                       "each fails, too"));
  EXPECT_EQ(ten.gets, 9);
  // An item does not replace itself.
  OneGood three(3);
  ASSERT_THAT(Fill(three, {1}, OnSampleError::kReplace), IsOk());
  EXPECT_EQ(three.gets, 3);
}

// Notes what was noted at each call.
class Noted : public Items {
 public:
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    seen.push_back(StdAtomics::Load(now, std::memory_order_relaxed));
    return Items::Get(index, random, sample);
  }
  absl::Status GetBatch(absl::Span<const int64_t> indices,
                        SampleBatch& samples) override {
    seen.push_back(StdAtomics::Load(now, std::memory_order_relaxed));
    return Items::GetBatch(indices, samples);
  }
  SharedWord<uint64_t> now = {};
  std::vector<uint64_t> seen;
};

TEST_P(FillBatchTest, NotesTheSampleBeforeItIsMade) {
  Noted noted;
  const std::vector<int64_t> indices = {9, 3, 0};
  BatchTask task = {.indices = indices,
                    .on_error = OnSampleError::kReplace,
                    .now = &noted.now};
  const auto go_on = [] { return false; };
  ASSERT_THAT(FillBatch(noted, layout_, task, memory_.data()->bytes, go_on),
              IsOk());
  // The item in the place of 3 is noted as its place.
  EXPECT_THAT(noted.seen, ElementsAre(WorkerNote::kAll, 1, 2, 2, 3));
  noted.seen.clear();
  task.one_by_one = true;
  ASSERT_THAT(FillBatch(noted, layout_, task, memory_.data()->bytes, go_on),
              IsOk());
  EXPECT_THAT(noted.seen, ElementsAre(1, 2, 2, 3));
}

TEST_P(FillBatchTest, LeavesOutSamplesThatHaveEndedAWorker) {
  const std::vector<int64_t> indices = {9, 4, 0, 2};
  const std::vector<int64_t> left_out = {1, 3};
  for (const OnSampleError on_error :
       {OnSampleError::kFail, OnSampleError::kSkip, OnSampleError::kReplace}) {
    bulk_.gets = 0;
    BatchTask task = {.first_position = 100,
                      .indices = indices,
                      .on_error = on_error,
                      .left_out = left_out};
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto filled,
        FillBatch(bulk_, layout_, task, memory_.data()->bytes,
                  [] { return false; }));
    EXPECT_EQ(bulk_.bulks, 0);
    ASSERT_THAT(filled.skipped, SizeIs(2));
    EXPECT_EQ(filled.skipped[0].position, 101);
    EXPECT_EQ(filled.skipped[0].index, 4);
    EXPECT_EQ(filled.skipped[1].position, 103);
    if (on_error == OnSampleError::kReplace) {
      // 5 and 6 fail, and 3.
      EXPECT_THAT(Values(filled.samples), ElementsAre(9, 7, 0, 4));
    } else {
      EXPECT_EQ(bulk_.gets, 2);
      EXPECT_THAT(Values(filled.samples), ElementsAre(9, 0));
    }
  }
}

TEST_P(FillBatchTest, AReplacementCanBeStopped) {
  OneGood ten(10);
  stop_ = 4;
  EXPECT_THAT(Fill(ten, {1}, OnSampleError::kReplace),
              StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(ten.gets, 3);
}

TEST_P(FillBatchTest, ABadSampleIsTheErrorOfTheBatch) {
  EXPECT_THAT(Fill(items_, {2, 3}),
              StatusIs(StatusCode::kDataLoss, "sample 101 (item 3): rotten"));
  bulk_.fails = true;
  EXPECT_THAT(Fill(bulk_, {2, 3}),
              StatusIs(StatusCode::kDataLoss,
                       absl::StrCat("samples 100 to ",
                                    GetParam() == 1 ? 101 : 100, ": no bulk")));
}

TEST_P(FillBatchTest, AFailedBulkIsRepeatedOneByOneToSkip) {
  bulk_.fails = true;
  TENON_ASSERT_OK_AND_ASSIGN(const auto filled,
                             Fill(bulk_, {2, 3, 4}, OnSampleError::kSkip));
  EXPECT_EQ(bulk_.gets, 3);
  EXPECT_THAT(Values(filled.samples), ElementsAre(2, 4));
}

TEST_P(FillBatchTest, StopsBetweenSamples) {
  // Once for the batch, with threads once for each call of GetBatch(), then
  // before each sample.
  stop_ = GetParam() == 1 ? 3 : 3 + GetParam();
  EXPECT_THAT(Fill(items_, {0, 1, 2, 4}), StatusIs(StatusCode::kCancelled));
  EXPECT_EQ(items_.gets, 2);
}

TEST_P(FillBatchTest, AnIndexOutsideOfTheDatasetIsAnError) {
  for (const int64_t bad : {int64_t{-1}, int64_t{10}}) {
    EXPECT_THAT(Fill(items_, {0, bad}),
                StatusIs(StatusCode::kOutOfRange,
                         AllOf(HasSubstr(absl::StrCat("item ", bad)),
                               HasSubstr("dataset of 10"))));
  }
  EXPECT_EQ(items_.gets, 0);
}

// 200 items that take different times: fields of each kind, and errors of each.
class Mixed : public Dataset {
 public:
  int64_t size() const override { return 200; }
  SampleSpec spec() const override {
    return SampleSpec()
        .Add<int64_t>("i")
        .AddRagged<double>("random")
        .AddStacked<int64_t>("pair")
        .Add<int32_t>("twice");
  }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    absl::SleepFor(absl::Microseconds(index * 7 % 5 * 30));
    TENON_RETURN_IF_ERROR(sample.Set("i", index));
    TENON_RETURN_IF_ERROR(sample.Set("twice", static_cast<int32_t>(2 * index)));
    if (index % 11 == 3) return absl::DataLossError("rotten");
    if (index % 11 == 5) throw std::runtime_error("on fire");
    TENON_ASSIGN_OR_RETURN(const auto numbers,
                           sample.Allocate<double>("random", {index % 4}));
    for (double& number : numbers) number = random.Uniform();
    if (index % 11 == 7) return absl::OkStatus();  // Without "pair".
    const int64_t pairs = index % 13 == 1 ? 3 : 2;
    TENON_ASSIGN_OR_RETURN(const auto pair,
                           sample.Allocate<int64_t>("pair", {pairs}));
    for (int64_t& number : pair) number = index;
    return absl::OkStatus();
  }
  bool thread_safe() const override { return true; }
};

// All that a batch of it has, in words.
std::string InWords(const absl::StatusOr<FilledBatch>& filled,
                    const BatchLayout& layout, std::byte* memory,
                    SampleScratch& scratch) {
  if (!filled.ok()) return filled.status().ToString();
  std::string words;
  const SampleSpan all(layout, memory, 0, filled->samples, &scratch);
  for (int64_t i = 0; i < filled->samples; ++i) {
    const SampleSpan sample = all.sample(i);
    absl::StrAppend(&words, sample.data<int64_t>("i")->front(), " ",
                    sample.data<int32_t>("twice")->front(), ":");
    const auto numbers = *sample.data<double>("random");
    for (const double number : numbers) {
      absl::StrAppend(&words, " ", number);
    }
    const auto pair = *sample.data<int64_t>("pair");
    for (const int64_t number : pair) {
      absl::StrAppend(&words, " ", number);
    }
    absl::StrAppend(&words, "\n");
  }
  for (const SkippedSample& skipped : filled->skipped) {
    absl::StrAppend(&words, skipped.position, " ", skipped.index, " ",
                    skipped.status.ToString(), "\n");
  }
  return words;
}

TEST(FillBatchThreadsTest, ABatchIsTheSameForAnyNumberOfThreads) {
  Mixed dataset;
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < 60; ++i) indices.push_back((i * 37 + 3) % 200);
  const BatchLayout layout = *BatchLayout::Create(dataset.spec(), 60);
  std::vector<std::byte> memory(static_cast<size_t>(layout.total_bytes()));
  for (const OnSampleError on_error :
       {OnSampleError::kSkip, OnSampleError::kFail}) {
    std::string expected;
    for (const int size : {1, 2, 3, 5}) {
      const auto threads = Threads(size);
      SampleScratch scratch(&layout);
      for (int round = 0; round < 3; ++round) {
        const std::string words =
            InWords(FillBatch(dataset, layout,
                              {.seed = 1,
                               .epoch = 2,
                               .first_position = 100,
                               .indices = indices,
                               .on_error = on_error,
                               .scratch = &scratch,
                               .threads = threads.get()},
                              memory.data(), [] { return false; }),
                    layout, memory.data(), scratch);
        if (expected.empty()) expected = words;
        EXPECT_EQ(words, expected) << size << " threads";
      }
    }
    EXPECT_THAT(expected, HasSubstr("rotten"));
    if (on_error == OnSampleError::kFail) continue;
    EXPECT_THAT(expected,
                AllOf(HasSubstr("on fire"), HasSubstr("'pair' was not written"),
                      HasSubstr("'pair' is int64[3]")));
  }
}

// Item 0 fails late, item 1 at once.
class FailsLate : public Items {
 public:
  absl::Status Get(int64_t index, SampleRandom&, Sample&) override {
    ++gets;
    if (index == 0) absl::SleepFor(absl::Milliseconds(30));
    return absl::DataLossError(absl::StrCat("item ", index, " is rotten"));
  }
};

TEST(FillBatchThreadsTest, TheErrorIsThatOfTheFirstSampleThatFails) {
  FailsLate dataset;
  const auto threads = Threads(2);
  const std::vector<int64_t> indices = {0, 1, 2, 3, 4, 5, 6, 7};
  const BatchLayout layout = *BatchLayout::Create(dataset.spec(), 8);
  std::vector<std::byte> memory(static_cast<size_t>(layout.total_bytes()));
  EXPECT_THAT(
      FillBatch(dataset, layout, {.indices = indices, .threads = threads.get()},
                memory.data(), [] { return false; }),
      StatusIs(StatusCode::kDataLoss, "sample 0 (item 0): item 0 is rotten"));
  EXPECT_LE(dataset.gets, 2);  // Those after it are not made.
}

}  // namespace
}  // namespace tenon::loader
