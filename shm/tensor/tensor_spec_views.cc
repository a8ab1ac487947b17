// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Elements and views of a TensorSpec. A view is a spec of some of its elements,
// or of all in another order, and cannot leave the bytes of the spec that it is
// made from. Each begins with a check that the spec is consistent: then its
// arithmetic cannot overflow.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace {

// An index as Python's slices take it: from the end if negative, cut to [0, n].
int64_t Cut(int64_t index, int64_t n) {
  if (index < 0) index = index < -n ? 0 : index + n;
  return std::min(index, n);
}

// Replaces a -1 in `shape` by what makes it have `elements`.
// Errors: kInvalidArgument if nothing does.
absl::StatusOr<std::vector<int64_t>> Resolve(absl::Span<const int64_t> shape,
                                             int64_t elements) {
  std::vector<int64_t> resolved(shape.begin(), shape.end());
  int64_t* open = nullptr;
  int64_t product = 1;
  bool good = true;
  for (int64_t& extent : resolved) {
    if (extent == -1 && open == nullptr) {
      open = &extent;
    } else {
      good = good && extent >= 0 &&
             !__builtin_mul_overflow(product, extent, &product);
    }
  }
  if (good && open != nullptr && product > 0 && elements % product == 0) {
    *open = elements / product;
    product = elements;
  }
  if (good && product == elements && (open == nullptr || *open >= 0)) {
    return resolved;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot give ", elements, " elements the shape [",
                   absl::StrJoin(shape, ", "), "]"));
}

// A run of dimensions that can be counted through with one stride.
struct Run {
  int64_t extent;
  int64_t stride;  // Of its last dimension.
};

// Joins dimensions that are dense in one another; those of extent 1 vanish.
std::vector<Run> RunsOf(const TensorSpec& spec) {
  std::vector<Run> runs;
  for (int i = 0; i < spec.rank(); ++i) {
    const Run next = {spec.shape()[i], spec.strides()[i]};
    if (next.extent == 1) continue;
    int64_t span;
    if (!runs.empty() &&
        !__builtin_mul_overflow(next.extent, next.stride, &span) &&
        runs.back().stride == span) {
      runs.back() = {runs.back().extent * next.extent, next.stride};
    } else {
      runs.push_back(next);
    }
  }
  return runs;
}

// Strides for `shape` over `runs`: each run must be filled by dimensions of the
// new shape exactly. Empty if it is not possible. No extent is 0.
std::vector<int64_t> StridesOver(std::vector<Run> runs,
                                 absl::Span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) {
      strides[i] = runs.empty() ? 1 : runs.back().stride;
      continue;
    }
    if (runs.empty() || runs.back().extent % shape[i] != 0) return {};
    Run& run = runs.back();
    strides[i] = run.stride;
    run.extent /= shape[i];
    // Multiplied only while the run goes on: then it is within the spec's
    // reach and cannot overflow.
    if (run.extent == 1) {
      runs.pop_back();
    } else {
      run.stride *= shape[i];
    }
  }
  return strides;
}

}  // namespace

absl::StatusOr<uint64_t> TensorSpec::ByteOffsetOf(
    absl::Span<const int64_t> index) const {
  if (index.size() != shape().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an index of ", index.size(), " numbers into tensor ", ToString()));
  }
  // Cannot overflow in a consistent spec, and wraps in another.
  uint64_t at = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    const int64_t extent = shape_[i];
    if (index[i] >= extent || index[i] < -std::max<int64_t>(extent, 0)) {
      return absl::OutOfRangeError(absl::StrCat(
          "index [", absl::StrJoin(index, ", "), "] in tensor ", ToString()));
    }
    const int64_t counted = index[i] < 0 ? index[i] + extent : index[i];
    at += static_cast<uint64_t>(counted) * static_cast<uint64_t>(strides_[i]);
  }
  return byte_offset_ + at * static_cast<uint64_t>(element_bytes());
}

absl::StatusOr<int> TensorSpec::Dimension(int dim) const {
  const int counted = dim < 0 ? dim + rank() : dim;
  if (counted < 0 || counted >= rank()) {
    return absl::OutOfRangeError(
        absl::StrCat("tensor ", ToString(), " has no dimension ", dim));
  }
  return counted;
}

absl::StatusOr<TensorSpec> TensorSpec::Slice(int dim,
                                             const SliceRange& range) const {
  TENON_RETURN_IF_ERROR(CheckConsistent());
  TENON_ASSIGN_OR_RETURN(const int d, Dimension(dim));
  if (range.step <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice with step ", range.step, "; want at least 1"));
  }
  const int64_t extent = shape_[d];
  const int64_t start = Cut(range.start, extent);
  const int64_t stop =
      std::max(start, Cut(range.stop.value_or(extent), extent));
  TensorSpec view = *this;
  // (stop - start + step - 1) / step, which could overflow.
  view.shape_[d] = stop == start ? 0 : (stop - start - 1) / range.step + 1;
  if (view.elements() == 0) return view;  // The offset stays where it is valid.
  view.byte_offset_ +=
      static_cast<uint64_t>(start * strides_[d] * element_bytes());
  // With one element left the stride is not used, and could overflow.
  if (view.shape_[d] > 1) view.strides_[d] = strides_[d] * range.step;
  return view;
}

absl::StatusOr<TensorSpec> TensorSpec::Select(int dim, int64_t index) const {
  TENON_RETURN_IF_ERROR(CheckConsistent());
  TENON_ASSIGN_OR_RETURN(const int d, Dimension(dim));
  const int64_t extent = shape_[d];
  if (index < -extent || index >= extent) {
    return absl::OutOfRangeError(absl::StrCat("index ", index, " in dimension ",
                                              d, " of tensor ", ToString()));
  }
  const int64_t counted = index < 0 ? index + extent : index;
  TENON_ASSIGN_OR_RETURN(TensorSpec view,
                         Slice(d, {.start = counted, .stop = counted + 1}));
  std::copy(view.shape_ + d + 1, view.shape_ + kMaxRank, view.shape_ + d);
  std::copy(view.strides_ + d + 1, view.strides_ + kMaxRank, view.strides_ + d);
  view.rank_ -= 1;
  view.shape_[kMaxRank - 1] = 0;
  view.strides_[kMaxRank - 1] = 0;
  return view;
}

absl::StatusOr<TensorSpec> TensorSpec::Transpose(int dim_a, int dim_b) const {
  TENON_RETURN_IF_ERROR(CheckConsistent());
  TENON_ASSIGN_OR_RETURN(const int a, Dimension(dim_a));
  TENON_ASSIGN_OR_RETURN(const int b, Dimension(dim_b));
  TensorSpec view = *this;
  std::swap(view.shape_[a], view.shape_[b]);
  std::swap(view.strides_[a], view.strides_[b]);
  return view;
}

absl::StatusOr<TensorSpec> TensorSpec::Reshape(
    absl::Span<const int64_t> shape) const {
  TENON_RETURN_IF_ERROR(CheckConsistent());
  TENON_ASSIGN_OR_RETURN(const std::vector<int64_t> resolved,
                         Resolve(shape, elements()));
  if (elements() == 0) return Contiguous(dtype_, resolved, byte_offset_);
  const std::vector<int64_t> strides = StridesOver(RunsOf(*this), resolved);
  if (strides.empty() && !resolved.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "tensor ", ToString(), " has no view of shape [",
        absl::StrJoin(resolved, ", "), "]; copy it to a contiguous one first"));
  }
  return Strided(dtype_, resolved, strides, byte_offset_);
}

}  // namespace tenon
