// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/batch_joiner.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const BatchLayout> LayoutOf(const SampleSpec& spec) {
  return std::make_shared<const BatchLayout>(*BatchLayout::Create(spec, 4));
}

class BatchJoinerTest : public ::testing::Test {
 protected:
  // A part, with two fields of each of `values`.
  Batch Part(const std::vector<int64_t>& values,
             std::vector<SkippedSample> skipped = {}) const {
    auto storage =
        *Storage::CreatePrivate(static_cast<size_t>(layout_->total_bytes()));
    std::byte* const memory = *storage->Write();
    const auto size = std::ssize(values);
    for (int64_t i = 0; i < size; ++i) {
      const Sample sample(*layout_, memory, i, 1);
      const int64_t value = values[static_cast<size_t>(i)];
      EXPECT_THAT(sample.Set("value", value), IsOk());
      EXPECT_THAT(sample.Set("half", static_cast<float>(value) / 2), IsOk());
    }
    return *Batch::Create(
        {.number = 7, .size = size, .worker = 1, .skipped = std::move(skipped)},
        layout_, std::move(storage));
  }

  const std::shared_ptr<const BatchLayout> layout_ =
      LayoutOf(SampleSpec().Add<int64_t>("value").Add<float>("half"));
  BatchJoiner joiner_{layout_};
};

TEST_F(BatchJoinerTest, PartsAreJoinedInTheirOrderWithoutGaps) {
  for (const int64_t number : {7, 8}) {
    ASSERT_TRUE(joiner_.Begin(number, 3));
    EXPECT_TRUE(joiner_.is_joining());
    EXPECT_FALSE(joiner_.Add(Part({1, 2})).has_value());
    EXPECT_FALSE(
        joiner_.Add(Part({}, {{.position = 2, .index = 5}})).has_value());
    const auto joined = joiner_.Add(Part({4}));
    ASSERT_TRUE(joined.has_value());
    TENON_ASSERT_OK_AND_ASSIGN(const Batch batch, *joined);
    EXPECT_EQ(batch.number(), number);
    EXPECT_EQ(batch.worker(), 0);
    EXPECT_EQ(batch.size(), 3);
    ASSERT_EQ(batch.skipped().size(), 1u);
    EXPECT_EQ(batch.skipped()[0].index, 5);
    EXPECT_THAT(batch.data<int64_t>("value"),
                IsOkAndHolds(ElementsAre(1, 2, 4)));
    EXPECT_THAT(batch.data<float>("half"), IsOkAndHolds(ElementsAre(.5, 1, 2)));
    EXPECT_FALSE(joiner_.is_joining());
  }
}

TEST_F(BatchJoinerTest, TheFirstErrorIsTheBatchsAfterAllParts) {
  ASSERT_TRUE(joiner_.Begin(0, 3));
  EXPECT_FALSE(joiner_.Add(absl::DataLossError("one")).has_value());
  EXPECT_FALSE(joiner_.Add(absl::AbortedError("two")).has_value());
  EXPECT_TRUE(joiner_.is_joining());
  const auto joined = joiner_.Add(Part({1}));
  ASSERT_TRUE(joined.has_value());
  EXPECT_THAT(*joined, StatusIs(StatusCode::kDataLoss, HasSubstr("one")));
  EXPECT_FALSE(joiner_.is_joining());
}

TEST_F(BatchJoinerTest, AnAbandonedBatchLeavesNothingInTheNextOne) {
  ASSERT_TRUE(joiner_.Begin(0, 2));
  EXPECT_FALSE(joiner_.Add(Part({1, 2})).has_value());
  joiner_.Abandon();
  EXPECT_FALSE(joiner_.is_joining());
  ASSERT_TRUE(joiner_.Begin(1, 1));
  const auto joined = joiner_.Add(Part({3}));
  ASSERT_TRUE(joined.has_value());
  TENON_ASSERT_OK_AND_ASSIGN(const Batch batch, *joined);
  EXPECT_THAT(batch.data<int64_t>("value"), IsOkAndHolds(ElementsAre(3)));
}

TEST(BatchJoinerShapesTest, ABatchWhoseShapesDifferHasNoParts) {
  BatchJoiner joiner(LayoutOf(SampleSpec().AddText("name")));
  EXPECT_FALSE(joiner.Begin(0, 2));
  EXPECT_FALSE(joiner.is_joining());
}

}  // namespace
}  // namespace tenon::loader
