// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A batch of `size` of 4 samples: value = 10 i, pair = {i, -i}.
Batch MakeBatch(int64_t size) {
  auto layout = std::make_shared<const BatchLayout>(*BatchLayout::Create(
      SampleSpec().Add<int64_t>("value").Add<float>("pair", {2}), 4));
  auto storage =
      *Storage::CreatePrivate(static_cast<size_t>(layout->total_bytes()));
  std::byte* const memory = *storage->Write();
  for (int64_t i = 0; i < size; ++i) {
    const Sample sample(*layout, memory, i, 1);
    EXPECT_THAT(sample.Set("value", 10 * i), IsOk());
    const absl::Span<float> pair = *sample.data<float>("pair");
    pair[0] = static_cast<float>(i);
    pair[1] = static_cast<float>(-i);
  }
  return *Batch::Create({.number = 7, .size = size, .worker = 3, .skipped = {}},
                        std::move(layout), std::move(storage));
}

TEST(BatchTest, FieldsAreTensors) {
  const Batch batch = MakeBatch(4);
  EXPECT_EQ(batch.number(), 7);
  EXPECT_EQ(batch.size(), 4);
  EXPECT_EQ(batch.worker(), 3);
  EXPECT_EQ(batch.num_fields(), 2);
  EXPECT_EQ(batch.field_name(1), "pair");
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor pair, batch.tensor("pair"));
  EXPECT_EQ(pair.spec().shape(), absl::Span<const int64_t>({4, 2}));
  EXPECT_EQ(**pair.at<const float>({2, 1}), -2.0f);
  EXPECT_THAT(batch.data<int64_t>("value"),
              IsOkAndHolds(ElementsAre(0, 10, 20, 30)));
  EXPECT_THAT(batch.data<float>(1),
              IsOkAndHolds(ElementsAre(0, 0, 1, -1, 2, -2, 3, -3)));
  EXPECT_EQ(batch.total_bytes(), 4 * (8 + 8));
}

TEST(BatchTest, AShortBatchHasShortTensors) {
  const Batch batch = MakeBatch(3);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor pair, batch.tensor("pair"));
  EXPECT_EQ(pair.spec().shape(), absl::Span<const int64_t>({3, 2}));
  EXPECT_TRUE(pair.spec().is_contiguous());
  EXPECT_THAT(batch.data<float>("pair"),
              IsOkAndHolds(ElementsAre(0, 0, 1, -1, 2, -2)));
  EXPECT_EQ(batch.total_bytes(), 3 * (8 + 8));
}

TEST(BatchTest, AnEmptyBatchHasEmptyTensors) {
  const Batch batch = MakeBatch(0);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor pair, batch.tensor("pair"));
  EXPECT_EQ(pair.spec().shape(), absl::Span<const int64_t>({0, 2}));
  EXPECT_THAT(batch.data<float>("pair"), IsOkAndHolds(IsEmpty()));
}

TEST(BatchTest, ATensorKeepsTheMemory) {
  std::optional<Batch> batch = MakeBatch(4);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor values, batch->tensor("value"));
  batch.reset();
  EXPECT_THAT(values.data<const int64_t>(),
              IsOkAndHolds(ElementsAre(0, 10, 20, 30)));
}

TEST(BatchTest, ACopyOfItsBlockIsTheSameBatch) {
  const Batch batch = MakeBatch(3);
  const size_t bytes = batch.storage()->size_bytes();
  const auto storage = *Storage::CreatePrivate(bytes);
  std::memcpy(*storage->Write(), *batch.storage()->Read(), bytes);
  TENON_ASSERT_OK_AND_ASSIGN(const Batch copy, batch.Over(storage));
  EXPECT_EQ(copy.number(), 7);
  EXPECT_EQ(copy.size(), 3);
  EXPECT_EQ(copy.storage(), storage);
  EXPECT_THAT(copy.data<int64_t>("value"),
              IsOkAndHolds(ElementsAre(0, 10, 20)));
  EXPECT_THAT(batch.Over(*Storage::CreatePrivate(bytes - 1)),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST(BatchTest, WrongTypesAndNamesAreErrors) {
  const Batch batch = MakeBatch(4);
  EXPECT_THAT(batch.data<double>("value"),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(batch.data<std::byte>("value"), IsOkAndHolds(SizeIs(32)));
  EXPECT_THAT(
      batch.tensor("label"),
      StatusIs(StatusCode::kNotFound,
               AllOf(HasSubstr("Batch::tensor()"), HasSubstr("value, pair"))));
  EXPECT_THAT(batch.tensor(2), StatusIs(StatusCode::kNotFound));
}

}  // namespace
}  // namespace tenon::loader
