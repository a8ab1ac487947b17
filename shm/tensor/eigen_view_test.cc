// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/eigen_view.h"

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

// The example of the header.
absl::Status Multiply(const Tensor& w, const Tensor& x, const Tensor& y) {
  TENON_ASSIGN_OR_RETURN(const auto weights, EigenMatrix<const float>(w));
  TENON_ASSIGN_OR_RETURN(const auto inputs, EigenVector<const float>(x));
  TENON_ASSIGN_OR_RETURN(auto outputs, EigenVector<float>(y));
  outputs = weights * inputs;
  return absl::OkStatus();
}

TEST(EigenViewTest, ComputesInTheMemoryOfTensors) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor w, Tensor::CopyOf({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {2, 3}));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor x,
                             Tensor::CopyOf({1.f, 0.f, 2.f}, {3}));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor y,
                             Tensor::CreateShared(kDtypeOf<float>, {2}));
  ASSERT_THAT(Multiply(w, x, y), IsOk());
  EXPECT_EQ(y.ToString(), "float32[2] {7, 16}");

  // Strides: the columns of a transposed matrix, of every second row.
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor columns, w.Transpose(0, 1));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor outer, columns.Slice(0, {.step = 2}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto matrix, EigenMatrix<float>(outer));
  ASSERT_EQ(matrix.rows(), 2);
  ASSERT_EQ(matrix.cols(), 2);
  EXPECT_EQ(matrix(1, 0), 3);
  EXPECT_EQ(matrix(1, 1), 6);
  EXPECT_EQ(matrix.sum(), 1 + 4 + 3 + 6);
}

TEST(EigenViewTest, RefusesWhatEigenHasNot) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                             Tensor::Create(kDtypeOf<float>, {2, 3}));
  EXPECT_THAT(EigenVector<float>(tensor),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("has 2 dimensions, not 1")));
  EXPECT_THAT(EigenMatrix<double>(tensor),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("accessed as float64")));
  TENON_ASSERT_OK_AND_ASSIGN(
      const TensorSpec backwards,
      TensorSpec::Strided(kDtypeOf<float>, {2}, {-1}, sizeof(float)));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor view,
                             Tensor::FromSpec(backwards, tensor.storage()));
  EXPECT_THAT(EigenVector<float>(view),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("negative stride")));
}

}  // namespace
}  // namespace tenon
