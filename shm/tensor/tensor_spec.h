// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorSpec: the offsets of the elements of a tensor in a piece of memory.
//
//   TENON_ASSIGN_OR_RETURN(
//       TensorSpec spec,
//       TensorSpec::Contiguous(kDtypeOf<float>, {64, 3, 224, 224}));
//   TENON_ASSIGN_OR_RETURN(TensorSpec first, spec.Slice(0, {.stop = 8}));
//   TENON_RETURN_IF_ERROR(first.CheckFits(segment.size_bytes()));
//
// It has no pointer and no owner, and may be sent to another process as bytes.
// It does not identify the memory it describes: a Tensor does (tensor.h).
//
//   0      4      8        16                 80                 144
//   | dtype | rank | offset | shape[0..7]      | strides[0..7]    |
//
// Element (i0, i1, ...) is at offset + (i0 * strides[0] + i1 * strides[1] +
// ...) * element size bytes. Shape and strides count elements, as in DLPack; a
// stride may be 0 or negative.

#ifndef TENON_SHM_TENSOR_TENSOR_SPEC_H_
#define TENON_SHM_TENSOR_TENSOR_SPEC_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Part of a dimension, as in Python's start:stop:step with a positive step: an
// unset stop is the end; both are cut to the dimension; negative values count
// from the end.
struct SliceRange {
  int64_t start = 0;
  std::optional<int64_t> stop;
  int64_t step = 1;
};

// A value of 144 bytes without padding. Thread-compatible.
// Processes: trivially copyable, of one layout in all processes of a machine.
// Trust: a spec made by the functions below is consistent in itself. One whose
//   bytes came from a peer may be inconsistent: copy it (copy_from_shared.h),
//   then CheckFits() it, then use the copy. On an unchecked spec every accessor
//   is safe, but its numbers mean nothing, and views of an inconsistent one are
//   kInvalidArgument.
// Failure: functions return a new spec or an error and change nothing.
class TensorSpec {
 public:
  static constexpr int kMaxRank = 8;

  // No elements: a float32 tensor of shape [0].
  TensorSpec() = default;

  // A dense, row-major tensor.
  // Errors: kInvalidArgument for a dtype that does not fill whole bytes or has
  // no lanes (its code may be any), more than kMaxRank dimensions, a negative
  // extent, or elements that do not fit into 2^63-1 bytes together with
  // `byte_offset`. An extent of 0 counts as 1 there, whatever its place.
  static absl::StatusOr<TensorSpec> Contiguous(DLDataType dtype,
                                               absl::Span<const int64_t> shape,
                                               uint64_t byte_offset = 0);

  // Any strides, in elements.
  // Errors: as Contiguous(), and if shape and strides differ in length or an
  // element would be before the start or beyond 2^63-1.
  static absl::StatusOr<TensorSpec> Strided(DLDataType dtype,
                                            absl::Span<const int64_t> shape,
                                            absl::Span<const int64_t> strides,
                                            uint64_t byte_offset = 0);
  // The same in a storage that begins with the element at the lowest address:
  // the offset is the distance of the first element from it.
  static absl::StatusOr<TensorSpec> Anchored(DLDataType dtype,
                                             absl::Span<const int64_t> shape,
                                             absl::Span<const int64_t> strides);

  // OK if this spec is consistent and every element is inside a storage of
  // `storage_bytes`, at a multiple of the scalar's size (a lane's) from its
  // beginning and less than 2^63 bytes from the first one. A spec without
  // elements fits if its offset does.
  // Errors: kInvalidArgument naming the bad field and both numbers.
  absl::Status CheckFits(uint64_t storage_bytes) const;

  DLDataType dtype() const { return dtype_; }
  int rank() const { return std::clamp(rank_, 0, kMaxRank); }
  absl::Span<const int64_t> shape() const {
    return {shape_, static_cast<size_t>(rank())};
  }
  absl::Span<const int64_t> strides() const {
    return {strides_, static_cast<size_t>(rank())};
  }
  uint64_t byte_offset() const { return byte_offset_; }

  // Of one element, all lanes.
  int64_t element_bytes() const;
  // The product of the extents.
  int64_t elements() const;
  // elements() * element_bytes().
  int64_t bytes() const;
  // Whether the elements are dense and in row-major order.
  bool is_contiguous() const;

  // The bytes of the elements: [first, end), both 0 without elements.
  struct ByteRange {
    uint64_t first = 0;
    uint64_t end = 0;
  };
  ByteRange byte_range() const;

  // Where the element at `index` begins: one number for each dimension, which
  // may be counted from the end.
  // Errors: kInvalidArgument for more or fewer numbers, kOutOfRange.
  absl::StatusOr<uint64_t> ByteOffsetOf(absl::Span<const int64_t> index) const;

  // Views. Dimensions may be counted from the end: -1 is the last.
  // Errors: kOutOfRange for a dimension or index out of range; kInvalidArgument
  // for a step that is not positive.
  absl::StatusOr<TensorSpec> Slice(int dim, const SliceRange& range) const;
  // One index of a dimension, which is removed.
  absl::StatusOr<TensorSpec> Select(int dim, int64_t index) const;
  absl::StatusOr<TensorSpec> Transpose(int dim_a, int dim_b) const;
  // The same elements in row-major order in another shape, in which one extent
  // may be -1, to be inferred.
  // Errors: kInvalidArgument if the numbers of elements differ;
  // kFailedPrecondition if the strides allow no such view (copy to a contiguous
  // tensor first).
  absl::StatusOr<TensorSpec> Reshape(absl::Span<const int64_t> shape) const;

  // "float32[64, 3, 224, 224]", with strides and offset if they are not those
  // of a contiguous tensor.
  std::string ToString() const;

  friend bool operator==(const TensorSpec& a, const TensorSpec& b);
  // ToString().
  friend std::ostream& operator<<(std::ostream& out, const TensorSpec& spec);

 private:
  static absl::StatusOr<TensorSpec> Unchecked(
      DLDataType dtype, absl::Span<const int64_t> shape,
      absl::Span<const int64_t> strides);
  // OK apart from the offsets of the elements.
  absl::Status CheckNumbers() const;
  // OK if the elements fit into some storage, so that no view can overflow.
  absl::Status CheckConsistent() const;
  absl::StatusOr<int> Dimension(int dim) const;

  DLDataType dtype_ = {kDLFloat, 32, 1};
  int32_t rank_ = 1;
  uint64_t byte_offset_ = 0;
  int64_t shape_[kMaxRank] = {};     // Zero beyond rank_.
  int64_t strides_[kMaxRank] = {1};  // Zero beyond rank_.
};

static_assert(std::is_trivially_copyable_v<TensorSpec>);
static_assert(std::is_standard_layout_v<TensorSpec>);
static_assert(sizeof(TensorSpec) == 144);
static_assert(std::has_unique_object_representations_v<TensorSpec>);

// A spec, and the size of a storage that it fits: so that a spec is checked
// once for many tensors.
class FittedSpec {
 public:
  FittedSpec() = default;  // TensorSpec(), in a storage without bytes.

  // Errors: TensorSpec::CheckFits()'s.
  static absl::StatusOr<FittedSpec> Check(const TensorSpec& spec,
                                          uint64_t storage_bytes) {
    if (absl::Status fits = spec.CheckFits(storage_bytes); !fits.ok()) {
      return fits;
    }
    return FittedSpec(spec, storage_bytes);
  }

  const TensorSpec& spec() const { return spec_; }
  uint64_t storage_bytes() const { return storage_bytes_; }

 private:
  FittedSpec(const TensorSpec& spec, uint64_t storage_bytes)
      : spec_(spec), storage_bytes_(storage_bytes) {}

  TensorSpec spec_;
  uint64_t storage_bytes_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_TENSOR_SPEC_H_
