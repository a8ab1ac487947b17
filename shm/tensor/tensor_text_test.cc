// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors of values that are there already, and tensors as text.

#include <array>
#include <cstdint>
#include <sstream>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::PrintToString;

TEST(TensorTextTest, CopyOfTakesSpansVectorsArraysAndLists) {
  const std::vector<float> values = {0.5f, 1, 2, 3, 4, 5};
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                             Tensor::CopyOf(values, {2, 3}));
  EXPECT_EQ(tensor.ToString(), "float32[2, 3] {0.5, 1, 2, 3, 4, 5}");
  EXPECT_FALSE(tensor.is_shared());
  const uint8_t bytes[] = {1, 2};
  EXPECT_EQ(Tensor::CopyOf(bytes, {2, 1})->ToString(), "uint8[2, 1] {1, 2}");
  EXPECT_EQ(Tensor::CopyOf(absl::MakeConstSpan(bytes), {1}).status().message(),
            "Tensor::CopyOf(): 2 values for tensor uint8[1]; want 1");
  EXPECT_EQ(Tensor::CopyOf(std::array<int64_t, 1>{-1}, {})->ToString(),
            "int64[] {-1}");
  EXPECT_EQ(Tensor::CopyOf({1.5, 2.5}, {2})->ToString(),
            "float64[2] {1.5, 2.5}");
  EXPECT_EQ(Tensor::CopyOf(std::vector<int8_t>(), {3, 0})->ToString(),
            "int8[3, 0] {}");
  EXPECT_THAT(Tensor::CopyOf({1}, {-1}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TensorTextTest, ShowsTheFirstElementsWhateverTheStrides) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                             Tensor::CopyOf({0, 1, 2, 3, 4, 5}, {2, 3}));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor columns, tensor.Transpose(0, 1));
  EXPECT_EQ(columns.ToString(),
            "int32[3, 2] with strides [1, 3] {0, 3, 1, 4, 2, 5}");
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor many,
                             Tensor::Create(kDtypeOf<float>, {64, 3}));
  EXPECT_THAT(many.ToString(), HasSubstr("0, 0, ... 176 more}"));
  EXPECT_EQ(Tensor().ToString(), "float32[0] {}");
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor halves,
                             Tensor::Create({kDLFloat, 16, 1}, {2}));
  EXPECT_EQ(halves.ToString(), "float16[2]");
}

TEST(TensorTextTest, StreamsAndFailuresShowIt) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, Tensor::CopyOf({7}, {1}));
  std::ostringstream out;
  out << tensor << "; " << tensor.spec();
  EXPECT_EQ(out.str(), "int32[1] {7}; int32[1]");
  EXPECT_EQ(PrintToString(tensor.spec()), "int32[1]");
}

}  // namespace
}  // namespace tenon
