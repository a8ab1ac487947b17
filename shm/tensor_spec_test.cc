// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor_spec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Numbers = std::vector<int64_t>;

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();
constexpr DLDataType kByte = {kDLUInt, 8, 1};
constexpr DLDataType kShort = {kDLInt, 16, 1};
constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};

// The bytes of a spec, for what no factory makes.
struct RawSpec {
  DLDataType dtype = kByte;
  int32_t rank = 0;
  uint64_t byte_offset = 0;
  int64_t shape[8] = {};
  int64_t strides[8] = {};
};
static_assert(sizeof(RawSpec) == sizeof(TensorSpec));

TensorSpec FromRaw(const RawSpec& raw) {
  TensorSpec spec;
  std::memcpy(static_cast<void*>(&spec), &raw, sizeof(raw));
  return spec;
}

RawSpec Raw(const Numbers& shape, const Numbers& strides, uint64_t offset = 0) {
  RawSpec raw;
  raw.rank = static_cast<int32_t>(shape.size());
  raw.byte_offset = offset;
  std::copy(shape.begin(), shape.end(), raw.shape);
  std::copy(strides.begin(), strides.end(), raw.strides);
  return raw;
}

// Calls `visit` with every vector of `size` numbers out of [first, last].
void ForEach(size_t size, int64_t first, int64_t last,
             const std::function<void(const Numbers&)>& visit) {
  Numbers numbers(size, first);
  for (;;) {
    visit(numbers);
    size_t i = size;
    while (i > 0 && numbers[i - 1] == last) numbers[--i] = first;
    if (i == 0) return;
    ++numbers[i - 1];
  }
}

// All indices of a shape in row-major order.
std::vector<Numbers> Indices(absl::Span<const int64_t> shape) {
  std::vector<Numbers> indices = {{}};
  for (const int64_t extent : shape) {
    std::vector<Numbers> longer;
    for (const Numbers& index : indices) {
      for (int64_t i = 0; i < extent; ++i) {
        longer.push_back(index);
        longer.back().push_back(i);
      }
    }
    indices = longer;
  }
  return indices;
}

// Where the elements begin, in row-major order, by the definition.
Numbers PlainOffsets(absl::Span<const int64_t> shape,
                     absl::Span<const int64_t> strides, int64_t offset,
                     int64_t element_bytes) {
  Numbers offsets;
  for (const Numbers& index : Indices(shape)) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) at += index[i] * strides[i];
    offsets.push_back(offset + at * element_bytes);
  }
  return offsets;
}

Numbers OffsetsOf(const TensorSpec& spec) {
  return PlainOffsets(spec.shape(), spec.strides(),
                      static_cast<int64_t>(spec.byte_offset()),
                      spec.element_bytes());
}

Numbers ToVector(absl::Span<const int64_t> span) {
  return Numbers(span.begin(), span.end());
}

// ---- What the factories make ----

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
                       HasSubstr("no multiple of the scalar's size")));
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

// ---- Specs whose bytes came from elsewhere ----

// What must not crash, whatever the bytes; under UBSan not even overflow.
void UseEverything(const TensorSpec& spec) {
  EXPECT_LE(spec.shape().size(), 8u);
  EXPECT_EQ(spec.strides().size(), spec.shape().size());
  EXPECT_GE(spec.rank(), 0);
  spec.element_bytes();
  spec.elements();
  spec.bytes();
  spec.is_contiguous();
  spec.byte_range();
  EXPECT_THAT(spec.ToString(), HasSubstr("["));
  spec.ByteOffsetOf(Numbers(spec.rank(), 0)).IgnoreError();
  spec.ByteOffsetOf(Numbers(spec.rank(), -1)).IgnoreError();
  EXPECT_TRUE(spec == spec);
  for (const int dim : {-1, 0, 7, std::numeric_limits<int>::min()}) {
    spec.Slice(dim, {.start = 1, .step = kMax}).IgnoreError();
    spec.Slice(dim, {.start = kMin, .stop = kMax}).IgnoreError();
    spec.Select(dim, -1).IgnoreError();
    spec.Select(dim, kMin).IgnoreError();
    spec.Transpose(dim, 0).IgnoreError();
  }
  spec.Reshape({-1}).IgnoreError();
  spec.Reshape({2, -1, kMax}).IgnoreError();
}

TEST(HostileTensorSpecTest, ExtremesOfEveryNumber) {
  const Numbers extremes = {kMin, kMin + 1, -1, 0, 1, 2, kMax - 1, kMax};
  int fitting = 0;
  for (const int64_t extent : extremes) {
    for (const int64_t other : extremes) {
      for (const int64_t stride : extremes) {
        for (const int64_t other_stride : extremes) {
          for (const uint64_t offset : {uint64_t{0}, kAnySize - 1, kAnySize}) {
            const TensorSpec spec =
                FromRaw(Raw({extent, other}, {stride, other_stride}, offset));
            UseEverything(spec);
            fitting += spec.CheckFits(kAnySize).ok();
          }
        }
      }
    }
  }
  EXPECT_GT(fitting, 100);
}

TEST(HostileTensorSpecTest, RanksThatThereAreNot) {
  for (const int rank : {-1, 9, 255, std::numeric_limits<int32_t>::max(),
                         std::numeric_limits<int32_t>::min()}) {
    RawSpec raw = Raw({2, 2, 2, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1});
    raw.rank = rank;
    const TensorSpec spec = FromRaw(raw);
    UseEverything(spec);
    EXPECT_THAT(spec.CheckFits(kAnySize),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("rank " + std::to_string(rank))));
    EXPECT_THAT(spec.Slice(0, {}),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(spec.Select(0, 0),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(spec.Transpose(0, 1),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(spec.Reshape({-1}),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(HostileTensorSpecTest, DtypesThatThereAreNot) {
  for (const int bits : {0, 4, 12, 255}) {
    for (const int lanes : {0, 1, 65535}) {
      RawSpec raw = Raw({2}, {1});
      raw.dtype = {255, static_cast<uint8_t>(bits),
                   static_cast<uint16_t>(lanes)};
      const TensorSpec spec = FromRaw(raw);
      UseEverything(spec);
      EXPECT_THAT(spec.CheckFits(kAnySize),
                  StatusIs(absl::StatusCode::kInvalidArgument));
    }
  }
  RawSpec raw = Raw({2}, {1});
  raw.dtype = {kDLInt, 32, 0};
  const TensorSpec spec = FromRaw(raw);
  UseEverything(spec);
  EXPECT_THAT(
      spec.CheckFits(kAnySize),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("have a lane")));
}

TEST(HostileTensorSpecTest, NumbersBeyondTheRank) {
  for (const bool in_shape : {false, true}) {
    RawSpec raw = Raw({2}, {1});
    (in_shape ? raw.shape : raw.strides)[7] = 1;
    EXPECT_THAT(FromRaw(raw).CheckFits(kAnySize),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("beyond its rank")));
  }
}

TEST(HostileTensorSpecTest, ReachesThatWrapAroundToWhereTheyBegan) {
  // 2^62 * 4 and 2^63 * 2 are 0 modulo 2^64.
  for (const RawSpec& raw :
       {Raw({5}, {int64_t{1} << 62}), Raw({3}, {kMin}, uint64_t{1} << 63),
        Raw({2, 2}, {kMax, kMax}), Raw({2, 2}, {kMin, kMin}, kAnySize),
        Raw({int64_t{1} << 32, int64_t{1} << 32}, {0, 0})}) {
    const TensorSpec spec = FromRaw(raw);
    UseEverything(spec);
    EXPECT_THAT(spec.CheckFits(kAnySize),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << spec.ToString();
  }
}

TEST(HostileTensorSpecTest, OffsetsAtTheEndOfAllNumbers) {
  EXPECT_THAT(FromRaw(Raw({1}, {1}, kAnySize)).CheckFits(kAnySize),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FromRaw(Raw({0}, {1}, kAnySize)).CheckFits(kAnySize), IsOk());
  EXPECT_THAT(FromRaw(Raw({1}, {1}, kAnySize - 1)).CheckFits(kAnySize), IsOk());
  EXPECT_THAT(FromRaw(Raw({2}, {1}, kAnySize - 1)).CheckFits(kAnySize),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FromRaw(Raw({2}, {kMin}, uint64_t{1} << 63)).CheckFits(kAnySize),
              IsOk());
  EXPECT_THAT(
      FromRaw(Raw({2}, {kMin}, (uint64_t{1} << 63) - 1)).CheckFits(kAnySize),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("1 bytes before")));
}

// ---- Views ----

TEST(TensorSpecViewTest, SliceTakesWhatPythonTakes) {
  const auto spec = TensorSpec::Contiguous(kByte, {5});
  ASSERT_THAT(spec, IsOk());
  const auto offsets = [&](const SliceRange& range) {
    const auto view = spec->Slice(0, range);
    return view.ok() ? OffsetsOf(*view) : Numbers{-1};
  };
  EXPECT_THAT(offsets({}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(offsets({.start = 1, .stop = 3}), ElementsAre(1, 2));
  EXPECT_THAT(offsets({.start = -2}), ElementsAre(3, 4));
  EXPECT_THAT(offsets({.stop = -2}), ElementsAre(0, 1, 2));
  EXPECT_THAT(offsets({.start = -100, .stop = 100}),
              ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(offsets({.step = 2}), ElementsAre(0, 2, 4));
  EXPECT_THAT(offsets({.start = 1, .step = 3}), ElementsAre(1, 4));
  EXPECT_THAT(offsets({.start = 3, .step = kMax}), ElementsAre(3));
  EXPECT_THAT(offsets({.start = 3, .stop = 3}), IsEmpty());
  EXPECT_THAT(offsets({.start = 4, .stop = 2}), IsEmpty());
  EXPECT_THAT(offsets({.start = kMax, .stop = kMin}), IsEmpty());
}

// All slices of all small strided tensors, of one of their dimensions.
TEST(TensorSpecViewTest, EverySliceHasTheElementsItShould) {
  const auto spec = TensorSpec::Strided(kShort, {3, 4}, {-5, 2}, 100);
  ASSERT_THAT(spec, IsOk());
  for (int dim = 0; dim < 2; ++dim) {
    ForEach(3, -5, 5, [&](const Numbers& range) {
      const auto view = spec->Slice(
          dim, {.start = range[0], .stop = range[1], .step = range[2]});
      if (range[2] <= 0) {
        ASSERT_THAT(view, StatusIs(absl::StatusCode::kInvalidArgument));
        return;
      }
      ASSERT_THAT(view, IsOk());
      const int64_t extent = spec->shape()[dim];
      const auto cut = [&](int64_t i) {
        return std::clamp<int64_t>(i < 0 ? i + extent : i, 0, extent);
      };
      Numbers expected;
      for (const Numbers& index : Indices(spec->shape())) {
        const int64_t i = index[dim] - cut(range[0]);
        if (i < 0 || i % range[2] != 0) continue;
        if (index[dim] >= cut(range[1])) continue;
        expected.push_back(
            static_cast<int64_t>(spec->ByteOffsetOf(index).value()));
      }
      ASSERT_EQ(OffsetsOf(*view), expected) << view->ToString();
      ASSERT_THAT(view->CheckFits(spec->byte_range().end), IsOk());
    });
  }
}

TEST(TensorSpecViewTest, SelectTakesOneIndexAndTheDimensionIsGone) {
  const auto spec = TensorSpec::Strided(kShort, {2, 3, 4}, {-1, 9, 2}, 10);
  ASSERT_THAT(spec, IsOk());
  for (int dim = 0; dim < 3; ++dim) {
    for (int64_t i = 0; i < spec->shape()[dim]; ++i) {
      Numbers expected;
      for (const Numbers& index : Indices(spec->shape())) {
        if (index[dim] != i) continue;
        expected.push_back(
            static_cast<int64_t>(spec->ByteOffsetOf(index).value()));
      }
      const auto view = spec->Select(dim, i);
      ASSERT_THAT(view, IsOk());
      EXPECT_EQ(view->rank(), 2);
      EXPECT_EQ(OffsetsOf(*view), expected);
      const auto same = spec->Select(dim - 3, i - spec->shape()[dim]);
      ASSERT_THAT(same, IsOk());
      EXPECT_TRUE(*same == *view);
    }
    for (const int64_t i : {spec->shape()[dim], -spec->shape()[dim] - 1}) {
      EXPECT_THAT(spec->Select(dim, i),
                  StatusIs(absl::StatusCode::kOutOfRange));
    }
  }
  for (const int dim : {3, -4}) {
    EXPECT_THAT(spec->Select(dim, 0), StatusIs(absl::StatusCode::kOutOfRange));
    EXPECT_THAT(spec->Slice(dim, {}), StatusIs(absl::StatusCode::kOutOfRange));
    EXPECT_THAT(spec->Transpose(0, dim),
                StatusIs(absl::StatusCode::kOutOfRange));
  }
}

TEST(TensorSpecViewTest, TransposeSwapsTwoDimensions) {
  const auto spec = TensorSpec::Contiguous(kByte, {2, 3, 4});
  ASSERT_THAT(spec, IsOk());
  const auto view = spec->Transpose(0, -1);
  ASSERT_THAT(view, IsOk());
  EXPECT_THAT(view->shape(), ElementsAre(4, 3, 2));
  EXPECT_THAT(view->strides(), ElementsAre(1, 4, 12));
  for (const Numbers& index : Indices(spec->shape())) {
    EXPECT_EQ(view->ByteOffsetOf({index[2], index[1], index[0]}).value(),
              spec->ByteOffsetOf(index).value());
  }
  EXPECT_TRUE(view->Transpose(2, 0).value() == *spec);
}

// If all elements lie where strides put them, those strides; else nothing.
std::optional<Numbers> StridesThatReach(const Numbers& offsets,
                                        const Numbers& shape) {
  const std::vector<Numbers> indices = Indices(shape);
  Numbers strides(shape.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    for (size_t d = 0; d < shape.size(); ++d) {
      Numbers one(shape.size(), 0);
      one[d] = 1;
      if (indices[i] == one) strides[d] = offsets[i] - offsets[0];
    }
  }
  if (PlainOffsets(shape, strides, offsets[0], 1) == offsets) return strides;
  return {};
}

// Against the definition: a view exists if and only if strides do.
TEST(TensorSpecViewTest, ReshapeFindsEveryViewThereIsAndNoOther) {
  int views = 0;
  int refusals = 0;
  const auto check = [&](const TensorSpec& spec, const Numbers& shape) {
    const Numbers offsets = OffsetsOf(spec);
    const auto view = spec.Reshape(shape);
    if (StridesThatReach(offsets, shape).has_value()) {
      ASSERT_THAT(view, IsOk()) << spec.ToString();
      ASSERT_EQ(OffsetsOf(*view), offsets) << view->ToString();
      ASSERT_EQ(ToVector(view->shape()), shape);
      ++views;
    } else {
      ASSERT_THAT(view, StatusIs(absl::StatusCode::kFailedPrecondition))
          << spec.ToString();
      ++refusals;
    }
  };
  const Numbers strides_tried = {-2, 0, 1, 2, 3, 4, 6};
  ForEach(3, 1, 3, [&](const Numbers& shape) {
    ForEach(3, 0, 6, [&](const Numbers& choice) {
      Numbers strides;
      for (const int64_t i : choice) strides.push_back(strides_tried[i]);
      const auto spec = TensorSpec::Strided(kByte, shape, strides, 40);
      ASSERT_THAT(spec, IsOk());
      const int64_t n = spec->elements();
      check(*spec, {n});
      for (int64_t a = 2; a < n; ++a) {
        if (n % a == 0) check(*spec, {a, n / a});
        if (n % (2 * a) == 0) check(*spec, {a, 1, 2, n / a / 2});
      }
    });
  });
  EXPECT_GT(views, 10'000);
  EXPECT_GT(refusals, 10'000);
}

TEST(TensorSpecViewTest, ReshapeOfAScalarAndToOne) {
  const auto scalar = TensorSpec::Contiguous(kByte, {}, 5);
  ASSERT_THAT(scalar, IsOk());
  const auto cube = scalar->Reshape({1, 1, 1});
  ASSERT_THAT(cube, IsOk());
  EXPECT_EQ(OffsetsOf(*cube), Numbers{5});
  const auto back = cube->Reshape({});
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(*back == *scalar);
}

TEST(TensorSpecViewTest, ReshapeWorksOutOneExtent) {
  const auto spec = TensorSpec::Contiguous(kByte, {4, 6});
  ASSERT_THAT(spec, IsOk());
  EXPECT_THAT(spec->Reshape({-1, 8}).value().shape(), ElementsAre(3, 8));
  EXPECT_THAT(spec->Reshape({2, -1, 2}).value().shape(), ElementsAre(2, 6, 2));
  for (const Numbers& shape : {Numbers{-1, -1},
                               {-1, 5},
                               {-1, 0},
                               {-2, 12},
                               {5, 5},
                               {},
                               {24, -2},
                               {kMax, kMax},
                               {-1, kMax, kMax},
                               {0}}) {
    EXPECT_THAT(spec->Reshape(shape),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("cannot give 24 elements")));
  }
  EXPECT_THAT(spec->Reshape(Numbers(9, -1)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(
      spec->Reshape({24, 1, 1, 1, 1, 1, 1, 1, 1}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at most 8")));
}

TEST(TensorSpecViewTest, ViewsWithoutElements) {
  const auto spec = TensorSpec::Contiguous(kShort, {3, 0, 4}, 8);
  ASSERT_THAT(spec, IsOk());
  for (const auto& view :
       {spec->Slice(0, {.start = 2}), spec->Slice(1, {.start = 5}),
        spec->Select(0, 2), spec->Transpose(0, 1), spec->Reshape({0, 7}),
        spec->Reshape({-1, 7}), spec->Slice(2, {.start = 1, .step = 2})}) {
    ASSERT_THAT(view, IsOk());
    EXPECT_EQ(view->elements(), 0);
    EXPECT_EQ(view->byte_offset(), 8u);
    EXPECT_THAT(view->CheckFits(8), IsOk());
  }
  EXPECT_THAT(spec->Select(1, 0), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(spec->Reshape({0, -1}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TensorSpecViewTest, ViewsOfViews) {
  // A batch of images, of which every other row of one channel, turned.
  const auto batch = TensorSpec::Contiguous(kFloat32, {8, 3, 6, 4});
  ASSERT_THAT(batch, IsOk());
  const auto image = batch->Select(0, 5);
  ASSERT_THAT(image, IsOk());
  const auto channel = image->Select(0, -1);
  ASSERT_THAT(channel, IsOk());
  const auto rows = channel->Slice(0, {.start = 1, .step = 2});
  ASSERT_THAT(rows, IsOk());
  const auto turned = rows->Transpose(0, 1);
  ASSERT_THAT(turned, IsOk());
  EXPECT_EQ(turned->ToString(),
            "float32[4, 3] with strides [1, 8] at byte 1648");
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      EXPECT_EQ(turned->ByteOffsetOf({i, j}).value(),
                batch->ByteOffsetOf({5, 2, 1 + 2 * j, i}).value());
    }
  }
  EXPECT_THAT(turned->Reshape({12}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("copy it to a contiguous one first")));
}

// The largest reaches there are do not overflow when they are cut.
TEST(TensorSpecViewTest, ViewsOfTheFarthest) {
  const TensorSpec far = FromRaw(Raw({2, 1}, {kMin, kMax}, uint64_t{1} << 63));
  ASSERT_THAT(far.CheckFits(kAnySize), IsOk());
  EXPECT_EQ(far.Select(0, 1).value().byte_offset(), 0u);
  EXPECT_EQ(far.Slice(0, {.start = 1, .step = 3}).value().byte_offset(), 0u);
  EXPECT_EQ(far.Slice(0, {.step = kMax}).value().elements(), 1);
  EXPECT_EQ(far.byte_range().first, 0u);
  EXPECT_EQ(far.byte_range().end, (uint64_t{1} << 63) + 1);
  // Its offset is beyond what a new spec may have.
  EXPECT_THAT(far.Reshape({2}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tenon
