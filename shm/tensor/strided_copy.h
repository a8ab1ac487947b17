// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StridedCopy: copies the elements of one tensor to those of another; and the
// runs of bytes of such a copy, for memory that a driver copies.

#ifndef TENON_SHM_TENSOR_STRIDED_COPY_H_
#define TENON_SHM_TENSOR_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

// A tensor's elements: a spec, and the storage against which it has been
// checked (TensorSpec::CheckFits).
struct ElementsTo {
  const TensorSpec& spec;
  std::byte* storage;
};
struct ElementsFrom {
  const TensorSpec& spec;
  const std::byte* storage;
};

// Copies element by element in row-major order, with as few and as long steps
// as the strides allow. The specs must have the same shape and element size,
// and their bytes must not overlap. Where several elements of `to` share an
// address, the last one stays.
void StridedCopy(const ElementsTo& to, const ElementsFrom& from);

// The bytes that are dense in both: `to` and `from` are where they begin in the
// two storages.
struct StridedRun {
  uint64_t to;
  uint64_t from;
  size_t bytes;
};

// How many of them the copy has: 0 without elements.
uint64_t CountRuns(const TensorSpec& to, const TensorSpec& from);

// Calls `copy` for each, in the order of StridedCopy(), until it fails. The
// specs as there, but that their bytes may overlap.
absl::Status ForEachRun(
    const TensorSpec& to, const TensorSpec& from,
    absl::FunctionRef<absl::Status(const StridedRun& run)> copy);

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_STRIDED_COPY_H_
