// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/window_shuffle.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
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
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

SampleSpec CountSpec() {
  return SampleSpec().Add<int64_t>("count").Add<uint8_t>("twice", {2});
}

// 0, 1, ... size - 1; `bad` fails once, before the sample.
class Count : public SampleStream {
 public:
  explicit Count(int64_t size, int64_t bad = -1) : size_(size), bad_(bad) {}
  absl::StatusOr<bool> Next(SampleRandom&, Sample& sample) override {
    EXPECT_FALSE(ended_);
    ended_ = next_ == size_;
    if (ended_) return false;
    if (next_ == std::exchange(bad_, bad_ == next_ ? -1 : bad_)) {
      return absl::DataLossError("bad");
    }
    const auto twice = *sample.data<uint8_t>("twice");
    std::fill(twice.begin(), twice.end(), static_cast<uint8_t>(next_));
    EXPECT_THAT(sample.Set("count", next_++), IsOk());
    return true;
  }

 private:
  int64_t size_;
  int64_t bad_;
  int64_t next_ = 0;
  bool ended_ = false;
};

// All samples, and -1 for an error.
std::vector<int64_t> Drain(SampleStream& stream, uint64_t seed) {
  const BatchLayout layout = *BatchLayout::Create(CountSpec(), 1);
  alignas(64) std::byte memory[128];
  std::vector<int64_t> all;
  for (int64_t n = 0;; ++n) {
    SampleRandom random(seed, 0, n);
    Sample sample(layout, memory, 0, 1);
    const absl::StatusOr<bool> more = stream.Next(random, sample);
    if (!more.ok()) {
      all.push_back(-1);
      continue;
    }
    if (!*more) return all;
    all.push_back(sample.data<int64_t>("count")->front());
    EXPECT_EQ(sample.data<uint8_t>("twice")->back(),
              static_cast<uint8_t>(all.back()));
  }
}

std::vector<int64_t> Shuffled(int64_t size, int64_t window, uint64_t seed = 1) {
  auto stream = *WindowShuffle::Create(std::make_unique<Count>(size),
                                       CountSpec(), window);
  return Drain(*stream, seed);
}

TEST(WindowShuffleTest, HasEachSampleOnce) {
  std::vector<int64_t> expected(200);
  std::iota(expected.begin(), expected.end(), 0);
  for (const int64_t window : {2, 10, 200, 1000}) {
    std::vector<int64_t> all = Shuffled(200, window);
    EXPECT_NE(all, expected);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, expected) << window;
  }
}

TEST(WindowShuffleTest, AWindowOfOneKeepsTheOrder) {
  EXPECT_THAT(Shuffled(4, 1), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Shuffled(0, 5), SizeIs(0));
}

TEST(WindowShuffleTest, NoSampleComesEarlierThanTheWindow) {
  const std::vector<int64_t> all = Shuffled(1000, 16);
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_LT(all[static_cast<size_t>(i)], i + 16);
  }
}

TEST(WindowShuffleTest, TheOrderIsThatOfItsRandomNumbers) {
  EXPECT_EQ(Shuffled(100, 10, 5), Shuffled(100, 10, 5));
  EXPECT_NE(Shuffled(100, 10, 5), Shuffled(100, 10, 6));
  // The first sample of many windows is any of them.
  std::set<int64_t> first;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    first.insert(Shuffled(8, 8, seed)[0]);
  }
  EXPECT_THAT(first, SizeIs(8));
}

TEST(WindowShuffleTest, TheOrderStaysTheSameInAllVersions) {
  EXPECT_THAT(Shuffled(10, 4), ElementsAre(0, 2, 5, 4, 1, 8, 6, 9, 3, 7));
}

// A window whose spec is not that of the batch: an error for each sample, and
// then the end.
TEST(WindowShuffleTest, RefusesSamplesOfAnotherSpec) {
  const SampleSpec others[] = {
      SampleSpec().Add<int64_t>("count").Add<uint8_t>("twice", {1}),
      SampleSpec().Add<int64_t>("count").Add<int8_t>("twice", {2}),
      SampleSpec().Add<int64_t>("count").Add<uint8_t>("twice", {3}),
      SampleSpec().Add<int64_t>("count"),
      SampleSpec()
          .Add<int64_t>("count")
          .Add<uint8_t>("twice", {2})
          .Add<float>("more")};
  for (const SampleSpec& spec : others) {
    const BatchLayout layout = *BatchLayout::Create(spec, 1);
    alignas(64) std::byte memory[256];
    auto stream =
        *WindowShuffle::Create(std::make_unique<Count>(5), CountSpec(), 2);
    SampleRandom random(1, 0, 0);
    Sample sample(layout, memory, 0, 1);
    int errors = 0;
    absl::StatusOr<bool> more = true;
    for (; errors < 100; ++errors) {
      more = stream->Next(random, sample);
      if (more.ok()) break;
    }
    EXPECT_THAT(more, IsOkAndHolds(false)) << spec.ToString();
    EXPECT_EQ(errors, 5) << spec.ToString();
  }
}

TEST(WindowShuffleTest, AnErrorOfTheStreamLosesNoSample) {
  auto stream =
      *WindowShuffle::Create(std::make_unique<Count>(20, 7), CountSpec(), 4);
  std::vector<int64_t> all = Drain(*stream, 1);
  EXPECT_THAT(all, SizeIs(21));
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 21u);
}

TEST(WindowShuffleTest, RefusesNoStreamAndNoWindow) {
  EXPECT_THAT(WindowShuffle::Create(nullptr, CountSpec(), 4),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no stream")));
  EXPECT_THAT(WindowShuffle::Create(std::make_unique<Count>(1), CountSpec(), 0),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("window is 0")));
}

}  // namespace
}  // namespace tenon::loader
