// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StridedCopy: copies the elements of one tensor to those of another.

#ifndef TENON_SHM_TENSOR_STRIDED_COPY_H_
#define TENON_SHM_TENSOR_STRIDED_COPY_H_

#include <cstddef>

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

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_STRIDED_COPY_H_
