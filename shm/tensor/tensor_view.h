// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorView: the elements of a tensor by index, for loops.
//
//   TENON_ASSIGN_OR_RETURN(const auto pixels,
//                          (TensorView<float, 2>::Of(tensor)));
//   pixels[{1, 2}] = 0.5f;
//   float sum = 0;
//   for (int64_t y = 0; y < pixels.extent(0); ++y) {
//     for (int64_t x = 0; x < pixels.extent(1); ++x) sum += pixels(y, x);
//   }
//
// The dtype, the rank and the access are checked once, by Of(), and an index
// each time. The names are those of std::mdspan, which arrives with C++23:
// gcc 12 has none. Matrices for a library of linear algebra: eigen_view.h.

#ifndef TENON_SHM_TENSOR_TENSOR_VIEW_H_
#define TENON_SHM_TENSOR_TENSOR_VIEW_H_

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace internal_tensor_view {

absl::Status WrongRank(const TensorSpec& spec, int rank);
[[noreturn, gnu::cold]] void EndOutOfRange(absl::Span<const int64_t> index,
                                           absl::Span<const int64_t> extents);

}  // namespace internal_tensor_view

// A value. T is the type of the elements, const to read.
//
// Ownership: none: valid until Tensor::Share(), as long as a tensor of the
//   storage lives.
// Threads: thread-compatible; elements may be accessed as those of the tensor.
// Trust: as Tensor. The extents are this view's own: a peer cannot change them.
// Failure: an index out of range ends the program.
template <typename T, int kRank>
requires(TensorElement<std::remove_const_t<T>>&& kRank >= 0 &&
         kRank <= TensorSpec::kMaxRank) class TensorView {
 public:
  using Index = std::array<int64_t, static_cast<size_t>(kRank)>;

  // Any strides. Errors: Tensor::at()'s; kInvalidArgument for another rank.
  static absl::StatusOr<TensorView> Of(const Tensor& tensor) {
    const TensorSpec& spec = tensor.spec();
    if (spec.rank() != kRank) {
      return internal_tensor_view::WrongRank(spec, kRank);
    }
    TensorView view;
    for (size_t i = 0; i < view.extents_.size(); ++i) {
      view.extents_[i] = spec.shape()[i];
      view.strides_[i] = spec.strides()[i];
    }
    if (spec.elements() == 0) {
      // No element has an address; this checks the dtype.
      const absl::StatusOr<Tensor> dense = tensor.Contiguous();
      if (!dense.ok()) return dense.status();
      const absl::StatusOr<absl::Span<T>> none = dense->template data<T>();
      if (!none.ok()) return none.status();
      return view;
    }
    const absl::StatusOr<T*> first = tensor.template at<T>(Index{});
    if (!first.ok()) return first.status();
    view.data_ = *first;
    return view;
  }

  static constexpr int rank() { return kRank; }
  int64_t extent(int dim) const { return extents_[static_cast<size_t>(dim)]; }
  // In elements.
  int64_t stride(int dim) const { return strides_[static_cast<size_t>(dim)]; }
  // The first element; null without elements.
  T* data_handle() const { return data_; }

  // Indices count from 0, and not from the end.
  T& operator[](const Index& index) const {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      if (static_cast<uint64_t>(index[i]) >= static_cast<uint64_t>(extents_[i]))
          [[unlikely]] {
        internal_tensor_view::EndOutOfRange(index, extents_);
      }
      at += index[i] * strides_[i];
    }
    return data_[at];
  }
  template <std::integral... I>
  requires(sizeof...(I) == kRank) T& operator()(I... index) const {
    return (*this)[Index{static_cast<int64_t>(index)...}];
  }

 private:
  TensorView() = default;

  T* data_ = nullptr;
  Index extents_ = {};
  Index strides_ = {};
};

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_TENSOR_VIEW_H_
