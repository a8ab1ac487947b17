// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Collation: from the tensors of several samples to those of a batch.
//
//   TENON_ASSIGN_OR_RETURN(Tensor images, Stack(samples));
//   TENON_ASSIGN_OR_RETURN(PaddedBatch ids, PadToLongest(samples, int64_t{0}));
//
// Samples may have any strides. Results are dense, and copies; each tensor of
// one is allocated once, in the order of the members. Functions are pure and
// thread-safe.
//
// Errors of all: kInvalidArgument if there are no samples, or if the dtypes or
// shapes of two do not go together, with the number of the sample and both
// shapes; `allocate`'s; Tensor::CopyFrom()'s.

#ifndef TENON_LOADER_COLLATE_COLLATE_H_
#define TENON_LOADER_COLLATE_COLLATE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {

// Makes a dense, writable tensor, whose bytes may be anything.
using TensorAllocator = absl::FunctionRef<absl::StatusOr<Tensor>(
    DLDataType dtype, absl::Span<const int64_t> shape)>;

// In memory of this process.
absl::StatusOr<Tensor> AllocatePrivate(DLDataType dtype,
                                       absl::Span<const int64_t> shape);

// Samples of one shape: [samples, shape...].
absl::StatusOr<Tensor> Stack(absl::Span<const Tensor> samples,
                             TensorAllocator allocate = AllocatePrivate);

struct PaddedBatch {
  Tensor values;   // [samples, longest, rest...]
  Tensor lengths;  // int64 [samples]: the elements that are no padding.
};

// Samples of shapes [length, rest...]: `padding` follows the shorter ones.
// Errors: also kInvalidArgument if T is not the samples' type.
template <TensorElement T>
absl::StatusOr<PaddedBatch> PadToLongest(
    absl::Span<const Tensor> samples, const T& padding,
    TensorAllocator allocate = AllocatePrivate);

struct RaggedBatch {
  Tensor values;   // [sum of lengths, rest...]
  Tensor offsets;  // int64 [samples + 1]: sample i is values[offsets[i] :
                   // offsets[i + 1]].
};

// Samples of shapes [length, rest...], one after another.
absl::StatusOr<RaggedBatch> Concatenate(
    absl::Span<const Tensor> samples,
    TensorAllocator allocate = AllocatePrivate);

struct PackedBatch {
  Tensor values;    // [rows, row_length, rest...]
  Tensor segments;  // int32 [rows, row_length]: 1, 2, ... in a row; 0: padding.
  Tensor positions;  // int32 [rows, row_length]: in the sequence; 0: padding.
};

// Sequences of shapes [length, rest...] in rows of `row_length`, in their
// order: one that does not fit into the rest of a row begins the next row. No
// sequence is cut. Errors: also kInvalidArgument for a row_length below 1, for
// a sequence that is longer, and if T is not the samples' type.
template <TensorElement T>
absl::StatusOr<PackedBatch> Pack(absl::Span<const Tensor> samples,
                                 int64_t row_length, const T& padding,
                                 TensorAllocator allocate = AllocatePrivate);

// The two above with a function that pads a part of a tensor.
using PadFunction = absl::FunctionRef<absl::Status(const Tensor& part)>;
absl::StatusOr<PaddedBatch> PadToLongestBy(absl::Span<const Tensor> samples,
                                           PadFunction pad,
                                           TensorAllocator allocate);
absl::StatusOr<PackedBatch> PackBy(absl::Span<const Tensor> samples,
                                   int64_t row_length, PadFunction pad,
                                   TensorAllocator allocate);

// Implementation only below.

template <TensorElement T>
absl::StatusOr<PaddedBatch> PadToLongest(absl::Span<const Tensor> samples,
                                         const T& padding,
                                         TensorAllocator allocate) {
  return PadToLongestBy(
      samples, [&](const Tensor& part) { return part.Fill(padding); },
      allocate);
}

template <TensorElement T>
absl::StatusOr<PackedBatch> Pack(absl::Span<const Tensor> samples,
                                 int64_t row_length, const T& padding,
                                 TensorAllocator allocate) {
  return PackBy(
      samples, row_length,
      [&](const Tensor& part) { return part.Fill(padding); }, allocate);
}

}  // namespace tenon::loader

#endif  // TENON_LOADER_COLLATE_COLLATE_H_
