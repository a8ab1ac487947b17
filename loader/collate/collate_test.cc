// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/collate/collate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A tensor of the shape, with first, first + 1, ...
template <typename T>
Tensor Counting(const std::vector<int64_t>& shape, T first) {
  Tensor tensor = *Tensor::Create(kDtypeOf<T>, shape);
  const absl::Span<T> values = *tensor.data<T>();
  std::iota(values.begin(), values.end(), first);
  return tensor;
}

template <typename T>
std::vector<T> Elements(const Tensor& tensor) {
  const absl::Span<const T> values = *tensor.data<const T>();
  return {values.begin(), values.end()};
}

std::vector<int64_t> Shape(const Tensor& tensor) {
  const auto shape = tensor.spec().shape();
  return {shape.begin(), shape.end()};
}

// Memory that was used before, as that of an arena.
absl::StatusOr<Tensor> AllocateDirty(DLDataType dtype,
                                     absl::Span<const int64_t> shape) {
  absl::StatusOr<Tensor> tensor = Tensor::Create(dtype, shape);
  if (!tensor.ok()) return tensor;
  const absl::Span<std::byte> bytes = *tensor->data<std::byte>();
  std::fill(bytes.begin(), bytes.end(), std::byte{0x5a});
  return tensor;
}

absl::StatusOr<Tensor> AllocateNothing(DLDataType, absl::Span<const int64_t>) {
  return absl::ResourceExhaustedError("full");
}

TEST(StackTest, AddsADimension) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor batch,
      Stack({Counting<float>({2, 2}, 0), Counting<float>({2, 2}, 10)}));
  EXPECT_THAT(Shape(batch), ElementsAre(2, 2, 2));
  EXPECT_THAT(Elements<float>(batch), ElementsAre(0, 1, 2, 3, 10, 11, 12, 13));
}

TEST(StackTest, OfScalarsAndOfStridedSamples) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor scalars,
      Stack({Counting<int64_t>({}, 3), Counting<int64_t>({}, 4)}));
  EXPECT_THAT(Shape(scalars), ElementsAre(2));
  EXPECT_THAT(Elements<int64_t>(scalars), ElementsAre(3, 4));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor transposed,
                             Counting<int8_t>({2, 3}, 0).Transpose(0, 1));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor batch,
                             Stack({transposed, Counting<int8_t>({3, 2}, 9)}));
  EXPECT_THAT(Elements<int8_t>(batch),
              ElementsAre(0, 3, 1, 4, 2, 5, 9, 10, 11, 12, 13, 14));
}

TEST(StackTest, OfSamplesWithoutElements) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor batch,
      Stack({Counting<float>({0, 3}, 0), Counting<float>({0, 3}, 0)}));
  EXPECT_THAT(Shape(batch), ElementsAre(2, 0, 3));
}

TEST(StackTest, IsACopy) {
  const Tensor sample = Counting<float>({2}, 0);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor batch, Stack({sample}));
  ASSERT_THAT(sample.Fill(7.0f), IsOk());
  EXPECT_THAT(Elements<float>(batch), ElementsAre(0, 1));
}

TEST(StackTest, MismatchNamesTheSampleAndBothShapes) {
  const Tensor first = Counting<float>({3, 4}, 0);
  EXPECT_THAT(
      Stack({first, first, Counting<float>({3, 5}, 0)}),
      StatusIs(StatusCode::kInvalidArgument,
               "Stack(): sample 2 is float32[3, 5], and sample 0 is float32[3, "
               "4]; they must have the same dtype and shape"));
  EXPECT_THAT(Stack({first, Counting<double>({3, 4}, 0)}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("sample 1 is float64[3, 4], and sample 0")));
  EXPECT_THAT(Stack({first, Counting<float>({3, 4, 1}, 0)}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("sample 1 is float32[3, 4, 1]")));
  EXPECT_THAT(Stack({}), StatusIs(StatusCode::kInvalidArgument,
                                  "Stack(): there are no samples"));
}

TEST(PadToLongestTest, FillsUpTheShorter) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const PaddedBatch batch,
      PadToLongest({Counting<int32_t>({2}, 1), Counting<int32_t>({3}, 5),
                    Counting<int32_t>({0}, 0)},
                   int32_t{-1}, AllocateDirty));
  EXPECT_THAT(Shape(batch.values), ElementsAre(3, 3));
  EXPECT_THAT(Elements<int32_t>(batch.values),
              ElementsAre(1, 2, -1, 5, 6, 7, -1, -1, -1));
  EXPECT_THAT(Elements<int64_t>(batch.lengths), ElementsAre(2, 3, 0));
}

TEST(PadToLongestTest, KeepsFurtherDimensions) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const PaddedBatch batch,
      PadToLongest({Counting<float>({1, 2}, 0), Counting<float>({2, 2}, 4)},
                   0.5f, AllocateDirty));
  EXPECT_THAT(Shape(batch.values), ElementsAre(2, 2, 2));
  EXPECT_THAT(Elements<float>(batch.values),
              ElementsAre(0, 1, 0.5, 0.5, 4, 5, 6, 7));
}

TEST(PadToLongestTest, RefusesWhatDoesNotGoTogether) {
  const Tensor first = Counting<float>({1, 2}, 0);
  EXPECT_THAT(
      PadToLongest({first, Counting<float>({1, 3}, 0)}, 0.0f),
      StatusIs(StatusCode::kInvalidArgument,
               "PadToLongest(): sample 1 is float32[1, 3], and sample 0 is "
               "float32[1, 2]; they may differ in their first extent only"));
  EXPECT_THAT(PadToLongest({Counting<float>({}, 0)}, 0.0f),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("it needs a dimension of its length")));
  // Padding of another type.
  EXPECT_THAT(PadToLongest({first, Counting<float>({2, 2}, 0)}, int32_t{0}),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST(ConcatenateTest, HasValuesAndOffsets) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const RaggedBatch batch,
      Concatenate({Counting<int16_t>({2, 2}, 0), Counting<int16_t>({0, 2}, 0),
                   Counting<int16_t>({1, 2}, 8)},
                  AllocateDirty));
  EXPECT_THAT(Shape(batch.values), ElementsAre(3, 2));
  EXPECT_THAT(Elements<int16_t>(batch.values), ElementsAre(0, 1, 2, 3, 8, 9));
  EXPECT_THAT(Elements<int64_t>(batch.offsets), ElementsAre(0, 2, 2, 3));
}

TEST(ConcatenateTest, RefusesWhatDoesNotGoTogether) {
  EXPECT_THAT(
      Concatenate({Counting<float>({2}, 0), Counting<float>({2, 1}, 0)}),
      StatusIs(StatusCode::kInvalidArgument,
               HasSubstr("sample 1 is float32[2, 1], and sample 0 is "
                         "float32[2]")));
  EXPECT_THAT(Concatenate({}), StatusIs(StatusCode::kInvalidArgument));
}

TEST(PackTest, FillsRowsInOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const PackedBatch batch,
      Pack({Counting<int32_t>({2}, 10), Counting<int32_t>({1}, 20),
            Counting<int32_t>({2}, 30), Counting<int32_t>({4}, 40)},
           4, int32_t{-1}, AllocateDirty));
  EXPECT_THAT(Shape(batch.values), ElementsAre(3, 4));
  EXPECT_THAT(Elements<int32_t>(batch.values),
              ElementsAre(10, 11, 20, -1, 30, 31, -1, -1, 40, 41, 42, 43));
  EXPECT_THAT(Elements<int32_t>(batch.segments),
              ElementsAre(1, 1, 2, 0, 1, 1, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(Elements<int32_t>(batch.positions),
              ElementsAre(0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3));
}

// For many lengths: each sequence is found again, whole, in order.
TEST(PackTest, LosesNothing) {
  for (const int64_t row_length : {7, 8, 20}) {
    std::vector<Tensor> samples;
    for (int64_t i = 0; i < 50; ++i) {
      samples.push_back(Counting<int64_t>({i * 5 % 7 + 1, 1}, 1000 * i));
    }
    TENON_ASSERT_OK_AND_ASSIGN(
        const PackedBatch batch,
        Pack(samples, row_length, int64_t{-1}, AllocateDirty));
    const auto values = Elements<int64_t>(batch.values);
    const auto segments = Elements<int32_t>(batch.segments);
    const auto positions = Elements<int32_t>(batch.positions);
    std::vector<int64_t> found;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i] == -1, segments[i] == 0);
      if (segments[i] == 0) continue;
      ASSERT_EQ(values[i] % 1000, positions[i]);
      found.push_back(values[i]);
    }
    std::vector<int64_t> want;
    for (const Tensor& sample : samples) {
      for (const int64_t value : Elements<int64_t>(sample)) {
        want.push_back(value);
      }
    }
    EXPECT_EQ(found, want);
  }
}

TEST(PackTest, RefusesWhatDoesNotFit) {
  const Tensor five = Counting<int32_t>({5}, 0);
  EXPECT_THAT(Pack({Counting<int32_t>({4}, 0), five}, 4, int32_t{0}),
              StatusIs(StatusCode::kInvalidArgument,
                       "Pack(): sample 1 is int32[5], longer than a row of 4"));
  EXPECT_THAT(Pack({five}, 0, int32_t{0}),
              StatusIs(StatusCode::kInvalidArgument,
                       "Pack(): row_length is 0; it must be 1 to 2147483647"));
  EXPECT_THAT(Pack({five}, 6, 0.0f), StatusIs(StatusCode::kInvalidArgument));
}

TEST(CollateTest, AnAllocatorThatFails) {
  const Tensor sample = Counting<int32_t>({2}, 0);
  const auto full = StatusIs(StatusCode::kResourceExhausted, "full");
  EXPECT_THAT(Stack({sample}, AllocateNothing), full);
  EXPECT_THAT(PadToLongest({sample}, int32_t{0}, AllocateNothing), full);
  EXPECT_THAT(Concatenate({sample}, AllocateNothing), full);
  EXPECT_THAT(Pack({sample}, 4, int32_t{0}, AllocateNothing), full);
}

}  // namespace
}  // namespace tenon::loader
