// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors as matrices and vectors of Eigen, without a copy.
//
//   TENON_ASSIGN_OR_RETURN(const auto weights, EigenMatrix<const float>(w));
//   TENON_ASSIGN_OR_RETURN(const auto inputs, EigenVector<const float>(x));
//   TENON_ASSIGN_OR_RETURN(auto outputs, EigenVector<float>(y));
//   outputs = weights * inputs;
//
// The target needs Eigen 3 (@eigen, Debian's libeigen3-dev), so the umbrella
// //shm does not include it.
//
// Ownership: none: valid until Tensor::Share(), as long as a tensor of the
//   storage lives.
// Threads: thread-compatible; elements may be accessed as those of the tensor.
// Failure: an Eigen::Map is assigned to by element: keep the one that a call
//   returned, and assign no other StatusOr to its StatusOr.

#ifndef TENON_SHM_TENSOR_EIGEN_VIEW_H_
#define TENON_SHM_TENSOR_EIGEN_VIEW_H_

#include <type_traits>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_view.h"

namespace tenon {
namespace internal_eigen_view {

// Eigen::Map<const M> is a Map of constant elements.
template <typename T, typename M>
using MapOf =
    Eigen::Map<std::conditional_t<std::is_const_v<T>, const M, M>,
               Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;

// Eigen 3.4 refuses negative strides by an assertion.
template <typename T, int kRank>
absl::StatusOr<TensorView<T, kRank>> ViewFor(const Tensor& tensor) {
  for (const int64_t stride : tensor.spec().strides()) {
    if (stride < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.spec().ToString(),
                       " has a negative stride, which Eigen has not: Clone() "
                       "it first"));
    }
  }
  return TensorView<T, kRank>::Of(tensor);
}

}  // namespace internal_eigen_view

// Row major in its default layout, as tensors are; its strides are the
// tensor's. T is const to read.
template <typename T>
using EigenMatrixMap = internal_eigen_view::MapOf<
    T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic,
                     Eigen::RowMajor>>;
template <typename T>
using EigenVectorMap = internal_eigen_view::MapOf<
    T, Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, 1>>;

// A tensor of two dimensions: its rows and columns. Errors: TensorView::Of()'s;
// kInvalidArgument for a negative stride.
template <typename T>
requires TensorElement<std::remove_const_t<T>> absl::StatusOr<EigenMatrixMap<T>>
EigenMatrix(const Tensor& tensor) {
  const auto view = internal_eigen_view::ViewFor<T, 2>(tensor);
  if (!view.ok()) return view.status();
  return EigenMatrixMap<T>(view->data_handle(), view->extent(0),
                           view->extent(1), {view->stride(0), view->stride(1)});
}

// A tensor of one dimension. Errors: as EigenMatrix().
template <typename T>
requires TensorElement<std::remove_const_t<T>> absl::StatusOr<EigenVectorMap<T>>
EigenVector(const Tensor& tensor) {
  const auto view = internal_eigen_view::ViewFor<T, 1>(tensor);
  if (!view.ok()) return view.status();
  return EigenVectorMap<T>(view->data_handle(), view->extent(0),
                           {0, view->stride(0)});
}

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_EIGEN_VIEW_H_
