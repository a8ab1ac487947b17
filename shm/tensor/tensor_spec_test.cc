// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The factories of TensorSpec. Bytes from a peer: tensor_spec_hostile_test.cc.
// Views: tensor_spec_view_test.cc.

#include "tenon/shm/tensor/tensor_spec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/tensor_spec_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TensorSpecTest, DefaultHasNoElements) {
  const TensorSpec spec;
  EXPECT_EQ(spec.ToString(), "float32[0]");
  EXPECT_EQ(spec.elements(), 0);
  EXPECT_EQ(spec.bytes(), 0);
  EXPECT_TRUE(spec.is_contiguous());
  EXPECT_THAT(spec.CheckFits(0), IsOk());
  EXPECT_EQ(spec.byte_range().end, 0u);
}

TEST(TensorSpecTest, ContiguousIsRowMajor) {
  const auto spec = TensorSpec::Contiguous(kFloat32, {4, 3, 2}, 16);
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->rank(), 3);
  EXPECT_THAT(spec->shape(), ElementsAre(4, 3, 2));
  EXPECT_THAT(spec->strides(), ElementsAre(6, 2, 1));
  EXPECT_EQ(spec->byte_offset(), 16u);
  EXPECT_EQ(spec->element_bytes(), 4);
  EXPECT_EQ(spec->elements(), 24);
  EXPECT_EQ(spec->bytes(), 96);
  EXPECT_EQ(spec->byte_range().first, 16u);
  EXPECT_EQ(spec->byte_range().end, 112u);
  EXPECT_THAT(spec->CheckFits(112), IsOk());
  EXPECT_THAT(spec->CheckFits(111),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("96 bytes behind its offset, in a storage of "
                                 "111 bytes")));
}

TEST(TensorSpecTest, AScalarHasRankZero) {
  const auto spec = TensorSpec::Contiguous({kDLComplex, 128, 1}, {});
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->rank(), 0);
  EXPECT_EQ(spec->elements(), 1);
  EXPECT_EQ(spec->bytes(), 16);
  EXPECT_THAT(spec->ByteOffsetOf({}), IsOkAndHolds(0u));
  EXPECT_EQ(spec->ToString(), "complex128[]");
}

TEST(TensorSpecTest, LanesAreOneElementAlignedAsOneOfThem) {
  const auto spec = TensorSpec::Contiguous({kDLFloat, 32, 4}, {10}, 4);
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->element_bytes(), 16);
  EXPECT_EQ(spec->byte_range().end, 164u);
  EXPECT_EQ(spec->ToString(), "float32x4[10] at byte 4");
}

TEST(TensorSpecTest, EightDimensionsAreTheMost) {
  EXPECT_THAT(TensorSpec::Contiguous(kByte, Numbers(8, 2)), IsOk());
  EXPECT_THAT(TensorSpec::Contiguous(kByte, Numbers(9, 2)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("9 extents and 9 strides")));
  EXPECT_THAT(TensorSpec::Strided(kByte, {2, 2}, {1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("2 extents and 1 strides")));
}

TEST(TensorSpecTest, LargerThanFourGibibytes) {
  const auto spec = TensorSpec::Contiguous(kFloat32, {5, 1 << 20, 1 << 10});
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->bytes(), 5ll << 32);
  EXPECT_THAT(spec->CheckFits(5ull << 32), IsOk());
  EXPECT_THAT(spec->CheckFits((5ull << 32) - 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(spec->ByteOffsetOf({4, (1 << 20) - 1, (1 << 10) - 1}),
              IsOkAndHolds((5ull << 32) - 4));
  const auto last = spec->Select(0, -1);
  ASSERT_THAT(last, IsOk());
  EXPECT_EQ(last->byte_offset(), 4ull << 32);
  const auto flat = spec->Reshape({-1});
  ASSERT_THAT(flat, IsOk());
  EXPECT_THAT(flat->shape(), ElementsAre(5ll << 30));
}

TEST(TensorSpecTest, TheLargestThereIs) {
  const auto spec = TensorSpec::Contiguous(kByte, {kMax});
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->byte_range().end, static_cast<uint64_t>(kMax));
  EXPECT_THAT(TensorSpec::Contiguous(kByte, {kMax}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(TensorSpec::Contiguous(kShort, {kMax}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("more than 2^63-1 bytes")));
}

TEST(TensorSpecTest, DtypesThatDoNotFillBytesAreRefused) {
  for (const int bits : {0, 1, 4, 12, 63}) {
    const DLDataType dtype = {kDLInt, static_cast<uint8_t>(bits), 1};
    EXPECT_THAT(TensorSpec::Contiguous(dtype, {2}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("must fill whole bytes")))
        << bits;
  }
  EXPECT_THAT(
      TensorSpec::Contiguous({kDLInt, 8, 0}, {2}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("have a lane")));
  EXPECT_THAT(TensorSpec::Contiguous({kDLInt, 248, 65535}, {2}), IsOk());
  EXPECT_THAT(TensorSpec::Contiguous({200, 24, 1}, {2}), IsOk());
}

TEST(TensorSpecTest, OffsetsBetweenScalarsAreRefused) {
  EXPECT_THAT(TensorSpec::Contiguous(kFloat32, {2}, 2),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not a multiple of the scalar's size")));
}

TEST(TensorSpecTest, NegativeExtentsAreRefused) {
  for (const int64_t extent : {int64_t{-1}, kMin}) {
    EXPECT_THAT(
        TensorSpec::Contiguous(kByte, {2, extent}),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("negative")));
  }
}

TEST(TensorSpecTest, WithoutElementsThePlaceOfTheZeroDoesNotMatter) {
  const int64_t large = int64_t{1} << 40;
  for (const Numbers& shape :
       {Numbers{0, large, large}, {large, 0, large}, {large, large, 0}}) {
    EXPECT_THAT(TensorSpec::Strided(kByte, shape, {1, 1, 1}),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(TensorSpec::Contiguous(kByte, shape),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  const auto spec = TensorSpec::Contiguous(kByte, {large, 0, 3}, 7);
  ASSERT_THAT(spec, IsOk());
  EXPECT_EQ(spec->elements(), 0);
  EXPECT_THAT(spec->CheckFits(7), IsOk());
  EXPECT_THAT(spec->CheckFits(6), StatusIs(absl::StatusCode::kInvalidArgument));
}

// Every small spec against the definition.
TEST(TensorSpecTest, FitsExactlyWhereItsElementsLie) {
  for (size_t rank = 0; rank <= 3; ++rank) {
    const int64_t reach = rank == 3 ? 2 : 4;
    ForEach(rank, 0, 3, [&](const Numbers& shape) {
      ForEach(rank, -reach, reach, [&](const Numbers& strides) {
        const uint64_t offset = 12;
        const TensorSpec spec = [&] {
          RawSpec raw = Raw(shape, strides, offset);
          raw.dtype = kShort;
          return FromRaw(raw);
        }();
        const Numbers offsets = PlainOffsets(shape, strides, offset, 2);
        if (offsets.empty()) {
          ASSERT_THAT(spec.CheckFits(offset), IsOk());
          ASSERT_EQ(spec.byte_range().end, 0u);
          return;
        }
        const auto [low, high] =
            std::minmax_element(offsets.begin(), offsets.end());
        const auto end = static_cast<uint64_t>(*high + 2);
        ASSERT_EQ(spec.CheckFits(end).ok(), *low >= 0) << spec.ToString();
        ASSERT_FALSE(spec.CheckFits(end - 1).ok()) << spec.ToString();
        ASSERT_EQ(TensorSpec::Strided(kShort, shape, strides, offset).ok(),
                  *low >= 0);
        if (*low < 0) return;
        ASSERT_EQ(spec.byte_range().first, static_cast<uint64_t>(*low));
        ASSERT_EQ(spec.byte_range().end, end);
      });
    });
  }
}

TEST(TensorSpecTest, ContiguousMeansDenseAndInOrder) {
  ForEach(3, 0, 3, [](const Numbers& shape) {
    ForEach(3, 0, 9, [&](const Numbers& strides) {
      const auto spec = TensorSpec::Strided(kByte, shape, strides);
      ASSERT_THAT(spec, IsOk());
      const Numbers offsets = OffsetsOf(*spec);
      bool dense = true;
      for (size_t i = 0; i < offsets.size(); ++i) {
        dense = dense && offsets[i] == static_cast<int64_t>(i);
      }
      ASSERT_EQ(spec->is_contiguous(), dense) << spec->ToString();
    });
  });
}

TEST(TensorSpecTest, ByteOffsetOfEveryElement) {
  const auto spec = TensorSpec::Strided(kShort, {2, 3, 2}, {-1, 4, -12}, 60);
  ASSERT_THAT(spec, IsOk());
  const Numbers offsets = OffsetsOf(*spec);
  const std::vector<Numbers> indices = Indices(spec->shape());
  for (size_t i = 0; i < indices.size(); ++i) {
    EXPECT_THAT(spec->ByteOffsetOf(indices[i]), IsOkAndHolds(offsets[i]));
    Numbers from_the_end = indices[i];
    for (size_t d = 0; d < 3; ++d) from_the_end[d] -= spec->shape()[d];
    EXPECT_THAT(spec->ByteOffsetOf(from_the_end), IsOkAndHolds(offsets[i]));
  }
}

TEST(TensorSpecTest, IndicesThatAreNotThere) {
  const auto spec = TensorSpec::Contiguous(kByte, {2, 3});
  ASSERT_THAT(spec, IsOk());
  for (const Numbers& index :
       {Numbers{2, 0}, {0, 3}, {-3, 0}, {0, -4}, {kMax, 0}, {0, kMin}}) {
    EXPECT_THAT(spec->ByteOffsetOf(index),
                StatusIs(absl::StatusCode::kOutOfRange));
  }
  EXPECT_THAT(spec->ByteOffsetOf({1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("an index of 1 numbers")));
  EXPECT_THAT(TensorSpec().ByteOffsetOf({0}),
              StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(TensorSpecTest, AnchoredBeginsWithTheLowestElement) {
  ForEach(2, 0, 3, [](const Numbers& shape) {
    ForEach(2, -4, 4, [&](const Numbers& strides) {
      const auto spec = TensorSpec::Anchored(kShort, shape, strides);
      ASSERT_THAT(spec, IsOk());
      EXPECT_EQ(spec->byte_range().first, 0u);
      EXPECT_THAT(spec->strides(), testing::ElementsAreArray(strides));
      EXPECT_THAT(spec->CheckFits(spec->byte_range().end), IsOk());
    });
  });
  EXPECT_THAT(TensorSpec::Anchored(kShort, {kMax}, {kMin}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(TensorSpec::Anchored(kShort, {2}, {kMin}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(TensorSpec::Anchored(kByte, {3, 2}, {kMin / 2, kMax}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(TensorSpec::Anchored({kDLInt, 4, 1}, {2}, {1}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tenon
