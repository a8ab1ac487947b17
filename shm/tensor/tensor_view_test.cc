// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/tensor_view.h"

#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

auto IsInvalid(const char* text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
}

TEST(TensorViewTest, ReadsAndWritesByIndexWhateverTheStrides) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                             Tensor::CopyOf({0, 1, 2, 3, 4, 5}, {2, 3}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto view, (TensorView<int, 2>::Of(tensor)));
  EXPECT_EQ(view.rank(), 2);
  EXPECT_EQ(view.extent(1), 3);
  EXPECT_EQ(view.stride(0), 3);
  EXPECT_EQ((view[{1, 2}]), 5);
  view[{1, 2}] = 7;
  view(0, 1) = 8;

  TENON_ASSERT_OK_AND_ASSIGN(const Tensor transposed, tensor.Transpose(0, 1));
  TENON_ASSERT_OK_AND_ASSIGN(const auto columns,
                             (TensorView<const int, 2>::Of(transposed)));
  static_assert(std::is_same_v<decltype(columns(0, 0)), const int&>);
  EXPECT_EQ(columns(2, 1), 7);
  EXPECT_EQ(columns(1, 0), 8);
  EXPECT_EQ(columns.data_handle(), view.data_handle());

  TENON_ASSERT_OK_AND_ASSIGN(const Tensor row, tensor.Select(0, 1));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor element, row.Select(0, 0));
  TENON_ASSERT_OK_AND_ASSIGN(const auto scalar,
                             (TensorView<int, 0>::Of(element)));
  EXPECT_EQ(scalar(), 3);
}

TEST(TensorViewTest, ChecksRankTypeAndAccessOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                             Tensor::CopyOf({0, 1, 2, 3, 4, 5}, {2, 3}));
  EXPECT_THAT((TensorView<int, 3>::Of(tensor)),
              IsInvalid("tensor int32[2, 3] has 2 dimensions, not 3"));
  EXPECT_THAT((TensorView<float, 2>::Of(tensor)),
              IsInvalid("accessed as float32"));

  TENON_ASSERT_OK_AND_ASSIGN(const Tensor empty,
                             Tensor::Create(kDtypeOf<int>, {2, 0}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto none, (TensorView<int, 2>::Of(empty)));
  EXPECT_EQ(none.extent(1), 0);
  EXPECT_EQ(none.data_handle(), nullptr);
  EXPECT_THAT((TensorView<float, 2>::Of(empty)),
              IsInvalid("accessed as float32"));

  alignas(int) std::byte bytes[sizeof(int)] = {};
  TENON_ASSERT_OK_AND_ASSIGN(const TensorSpec spec,
                             TensorSpec::Contiguous(kDtypeOf<int>, {1}));
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor constant,
      Tensor::FromSpec(spec, Storage::FromLent({.data = bytes,
                                                .size_bytes = sizeof(bytes),
                                                .writable = false})));
  EXPECT_THAT((TensorView<const int, 1>::Of(constant)), IsOk());
  EXPECT_THAT((TensorView<int, 1>::Of(constant)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(TensorViewDeathTest, AnIndexOutOfRangeEndsTheProgram) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                             Tensor::CopyOf({0, 1, 2, 3, 4, 5}, {2, 3}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto view, (TensorView<int, 2>::Of(tensor)));
  EXPECT_DEATH((view[{1, 3}]) = 0,
               "index \\[1, 3\\] is out of range in shape \\[2, 3\\]");
  EXPECT_DEATH(view(-1, 0) = 0, "index \\[-1, 0\\]");
}

}  // namespace
}  // namespace tenon
