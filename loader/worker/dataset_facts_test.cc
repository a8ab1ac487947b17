// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/dataset_facts.h"

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

DatasetFacts FactsWithEachKind() {
  return {.spec = SampleSpec()
                      .Add<float>("image", {3, 4})
                      .Add("flag", {.code = 6, .bits = 8, .lanes = 1})
                      .AddPadded<int64_t>("ids", -1)
                      .AddRagged<float>("boxes", {4})
                      .AddPacked<int32_t>("tokens", 4096, 9)
                      .AddStacked<float>("any")
                      .AddText("file")
                      .AddInput<float>("wave")
                      .AddOutput<float>("spectrum"),
          .size = 17,
          .thread_safe = true};
}

TEST(DatasetFactsTest, ComeBack) {
  const DatasetFacts facts = FactsWithEachKind();
  TENON_ASSERT_OK_AND_ASSIGN(const DatasetFacts back,
                             DecodeDatasetFacts(Encode(facts)));
  EXPECT_EQ(back.spec.ToString(), facts.spec.ToString());
  EXPECT_EQ(back.size, 17);
  EXPECT_EQ(back.shards, 0);
  EXPECT_TRUE(back.thread_safe);
}

TEST(DatasetFactsTest, AreThoseOfTheDatasetThatIsMadeOfThem) {
  for (const int64_t shards : {int64_t{0}, int64_t{5}, kShardPerWorker}) {
    DatasetFacts facts = FactsWithEachKind();
    facts.shards = shards;
    if (shards != 0) {
      facts.size = -1;
      facts.open_shards = 2;
    }
    const std::unique_ptr<Dataset> dataset = DatasetOf(facts);
    TENON_ASSERT_OK_AND_ASSIGN(const DatasetFacts same, FactsOf(*dataset));
    EXPECT_EQ(same.spec.ToString(), facts.spec.ToString());
    EXPECT_EQ(same.size, facts.size);
    EXPECT_EQ(same.shards, shards);
    EXPECT_EQ(same.open_shards, facts.open_shards);
    EXPECT_EQ(same.thread_safe, shards == 0);
    auto* const iterable = dynamic_cast<IterableDataset*>(dataset.get());
    ASSERT_EQ(iterable != nullptr, shards != 0);
    if (iterable != nullptr) {
      EXPECT_THAT(iterable->Open(0, 0),
                  StatusIs(absl::StatusCode::kUnimplemented));
    }
  }
}

TEST(DatasetFactsTest, AProgramThatDoesNotCallInitIsNotWaitedForWithoutLimit) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto recipe,
                             DatasetRecipe::ByNameElsewhere("Photos"));
  EXPECT_THAT(
      DescribeDataset({.program = "loader/testing/program_that_hangs"}, recipe,
                      absl::InfiniteDuration(), absl::Milliseconds(100)),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("entry 'tenon.loader.describe', pid "),
                     HasSubstr("program 'loader/testing/program_that_hangs' "
                               "has run for 100ms without a call of "
                               "tenon::spawn::Init()"))));
}

TEST(DatasetFactsTest, AnyBytesAreAnErrorAtMost) {
  const std::string bytes = Encode(FactsWithEachKind());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(DecodeDatasetFacts(absl::string_view(bytes).substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(DecodeDatasetFacts(bytes + "x"),
              StatusIs(absl::StatusCode::kDataLoss));
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string mutated = bytes;
    for (int j = 0; j < 3; ++j) {
      mutated[random() % mutated.size()] = static_cast<char>(random());
    }
    DecodeDatasetFacts(mutated).status().IgnoreError();
  }
}

}  // namespace
}  // namespace tenon::loader
