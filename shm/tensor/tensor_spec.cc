// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/tensor_spec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor_spec_reshape.h"

namespace tenon {
namespace {

constexpr int64_t kMaxBytes = std::numeric_limits<int64_t>::max();

absl::Status Invalid(const TensorSpec& spec, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", spec.ToString(), ": ", why));
}

// How far the elements reach before and behind the first one, in elements.
struct Reach {
  int64_t before = 0;  // <= 0
  int64_t behind = 0;  // >= 0
};

// Empty on overflow. Of a consistent spec, no extent is 0.
std::optional<Reach> ReachOf(absl::Span<const int64_t> shape,
                             absl::Span<const int64_t> strides) {
  Reach reach;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t step;
    if (__builtin_sub_overflow(shape[i], 1, &step)) return {};
    if (__builtin_mul_overflow(step, strides[i], &step)) return {};
    int64_t& side = step < 0 ? reach.before : reach.behind;
    if (__builtin_add_overflow(side, step, &side)) return {};
  }
  return reach;
}

using Strides = absl::InlinedVector<int64_t, TensorSpec::kMaxRank>;

// The strides of a dense row-major tensor. An extent of 0 counts as one, so
// that no stride is 0. Wraps for a shape that is rejected anyway.
Strides RowMajorStrides(absl::Span<const int64_t> shape) {
  Strides strides(shape.size());
  uint64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = static_cast<int64_t>(stride);
    stride *= static_cast<uint64_t>(std::max<int64_t>(shape[i], 1));
  }
  return strides;
}

// An index as in Python's slices: from the end if negative, cut to [0, n].
int64_t Cut(int64_t index, int64_t n) {
  if (index < 0) index = index < -n ? 0 : index + n;
  return std::min(index, n);
}

}  // namespace

absl::StatusOr<TensorSpec> TensorSpec::Unchecked(
    DLDataType dtype, absl::Span<const int64_t> shape,
    absl::Span<const int64_t> strides) {
  if (shape.size() != strides.size() || shape.size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a tensor with ", shape.size(), " extents and ", strides.size(),
        " strides; want as many of both, at most ", int{kMaxRank}));
  }
  TensorSpec spec;
  spec.dtype_ = dtype;
  spec.rank_ = static_cast<int32_t>(shape.size());
  spec.strides_[0] = 0;
  std::copy(shape.begin(), shape.end(), spec.shape_);
  std::copy(strides.begin(), strides.end(), spec.strides_);
  return spec;
}

absl::StatusOr<TensorSpec> TensorSpec::Contiguous(
    DLDataType dtype, absl::Span<const int64_t> shape, uint64_t byte_offset) {
  return Strided(dtype, shape, RowMajorStrides(shape), byte_offset);
}

absl::StatusOr<TensorSpec> TensorSpec::Strided(
    DLDataType dtype, absl::Span<const int64_t> shape,
    absl::Span<const int64_t> strides, uint64_t byte_offset) {
  TENON_ASSIGN_OR_RETURN(TensorSpec spec, Unchecked(dtype, shape, strides));
  spec.byte_offset_ = byte_offset;
  TENON_RETURN_IF_ERROR(spec.CheckFits(kMaxBytes));
  return spec;
}

absl::StatusOr<TensorSpec> TensorSpec::Anchored(
    DLDataType dtype, absl::Span<const int64_t> shape,
    absl::Span<const int64_t> strides) {
  TENON_ASSIGN_OR_RETURN(TensorSpec spec, Unchecked(dtype, shape, strides));
  TENON_RETURN_IF_ERROR(spec.CheckNumbers());
  if (spec.elements() != 0) {
    const Reach reach = ReachOf(shape, strides).value_or(Reach());
    // An offset that wraps does not fit either.
    spec.byte_offset_ = (uint64_t{0} - static_cast<uint64_t>(reach.before)) *
                        static_cast<uint64_t>(spec.element_bytes());
  }
  TENON_RETURN_IF_ERROR(spec.CheckFits(kMaxBytes));
  return spec;
}

int64_t TensorSpec::element_bytes() const {
  return int64_t{dtype_.bits} / 8 * dtype_.lanes;
}

int64_t TensorSpec::elements() const {
  // Wraps instead of overflowing on a spec that was not checked.
  uint64_t product = 1;
  for (const int64_t extent : shape()) product *= static_cast<uint64_t>(extent);
  return static_cast<int64_t>(product);
}

int64_t TensorSpec::bytes() const {
  return static_cast<int64_t>(static_cast<uint64_t>(elements()) *
                              static_cast<uint64_t>(element_bytes()));
}

bool TensorSpec::is_contiguous() const {
  if (elements() == 0) return true;
  uint64_t stride = 1;
  for (int i = rank(); i-- > 0;) {
    // The stride of a dimension of extent 1 is never used.
    if (shape_[i] != 1 && static_cast<uint64_t>(strides_[i]) != stride) {
      return false;
    }
    stride *= static_cast<uint64_t>(shape_[i]);
  }
  return true;
}

absl::Status TensorSpec::CheckNumbers() const {
  if (rank_ < 0 || rank_ > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("a tensor of rank ", rank_, "; at most ", int{kMaxRank}));
  }
  if (dtype_.bits == 0 || dtype_.bits % 8 != 0 || dtype_.lanes == 0) {
    return Invalid(*this, "the dtype must fill whole bytes and have a lane");
  }
  int64_t bytes = element_bytes();
  for (const int64_t extent : shape()) {
    if (extent < 0) return Invalid(*this, "an extent is negative");
    // Extents of 0 count as one: the result must not depend on their position
    // in a view.
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes)) {
      return Invalid(*this, "its extents multiply to more than 2^63-1 bytes");
    }
  }
  for (int i = rank_; i < kMaxRank; ++i) {
    if (shape_[i] != 0 || strides_[i] != 0) {
      return Invalid(*this,
                     "its shape or strides are not zero beyond its rank");
    }
  }
  return absl::OkStatus();
}

absl::Status TensorSpec::CheckConsistent() const {
  return CheckFits(std::numeric_limits<uint64_t>::max());
}

absl::Status TensorSpec::CheckFits(uint64_t storage_bytes) const {
  TENON_RETURN_IF_ERROR(CheckNumbers());
  if (byte_offset_ % (dtype_.bits / 8u) != 0) {
    return Invalid(*this, "its offset is not a multiple of the scalar's size");
  }
  if (byte_offset_ > storage_bytes) {
    return Invalid(*this, absl::StrCat("it begins behind a storage of ",
                                       SizeText(storage_bytes)));
  }
  if (elements() == 0) return absl::OkStatus();
  const std::optional<Reach> reach = ReachOf(shape(), strides());
  int64_t before;
  int64_t behind;
  if (!reach ||
      __builtin_mul_overflow(reach->before, element_bytes(), &before) ||
      __builtin_mul_overflow(reach->behind, element_bytes(), &behind) ||
      __builtin_add_overflow(behind, element_bytes(), &behind)) {
    return Invalid(*this, "its strides reach beyond 2^63-1 bytes");
  }
  // Neither side can overflow: `before` is negative, storage_bytes - offset is
  // not, and the magnitude of `before` is computed without negating it.
  const uint64_t magnitude = uint64_t{0} - static_cast<uint64_t>(before);
  if (magnitude > byte_offset_) {
    return Invalid(*this, absl::StrCat("an element begins ",
                                       SizeText(magnitude - byte_offset_),
                                       " before the storage"));
  }
  if (static_cast<uint64_t>(behind) > storage_bytes - byte_offset_) {
    return Invalid(*this, absl::StrCat("its elements end ",
                                       SizeText(static_cast<uint64_t>(behind)),
                                       " behind its offset, in a storage of ",
                                       SizeText(storage_bytes)));
  }
  return absl::OkStatus();
}

TensorSpec::ByteRange TensorSpec::byte_range() const {
  if (elements() == 0) return {};
  const std::optional<Reach> reach = ReachOf(shape(), strides());
  if (!reach) return {};
  const auto size = static_cast<uint64_t>(element_bytes());
  return {byte_offset_ + static_cast<uint64_t>(reach->before) * size,
          byte_offset_ + (static_cast<uint64_t>(reach->behind) + 1) * size};
}

absl::StatusOr<uint64_t> TensorSpec::ByteOffsetOf(
    absl::Span<const int64_t> index) const {
  if (index.size() != shape().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an index of ", index.size(), " numbers into tensor ", ToString()));
  }
  // Cannot overflow in a consistent spec, and wraps in an inconsistent one.
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

// A view stays within the bytes of its spec. Each function that makes one
// checks first that the spec is consistent, so that its arithmetic cannot
// overflow.

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
                         ResolveShape(shape, elements()));
  if (elements() == 0) return Contiguous(dtype_, resolved, byte_offset_);
  const auto strides =
      ReshapedStrides(this->shape(), this->strides(), resolved);
  if (!strides) {
    return absl::FailedPreconditionError(absl::StrCat(
        "tensor ", ToString(), " has no view of shape [",
        absl::StrJoin(resolved, ", "), "]; copy it to a contiguous one first"));
  }
  return Strided(dtype_, resolved, *strides, byte_offset_);
}

std::string TensorSpec::ToString() const {
  std::string text =
      absl::StrCat(DtypeName(dtype_), "[", absl::StrJoin(shape(), ", "), "]");
  if (!is_contiguous()) {
    absl::StrAppend(&text, " with strides [", absl::StrJoin(strides(), ", "),
                    "]");
  }
  if (byte_offset_ != 0) {
    absl::StrAppend(&text, " at byte ", byte_offset_);
  }
  return text;
}

std::ostream& operator<<(std::ostream& out, const TensorSpec& spec) {
  return out << spec.ToString();
}

bool operator==(const TensorSpec& a, const TensorSpec& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

}  // namespace tenon
