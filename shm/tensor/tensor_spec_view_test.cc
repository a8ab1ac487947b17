// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Views of specs: slices, single indices, transposed and reshaped.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/tensor/tensor_spec_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

// The strides that give all these offsets, if any exist; else empty.
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
  // Every other row of one channel of a batch of images, transposed.
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

// The largest possible reaches do not overflow when they are cut.
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
