// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The arithmetic of TensorSpec::Reshape(). Internal to TensorSpec.

#ifndef TENON_SHM_TENSOR_TENSOR_SPEC_RESHAPE_H_
#define TENON_SHM_TENSOR_TENSOR_SPEC_RESHAPE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace tenon {

// `shape` with a -1 in it replaced, so that it has `elements`.
// Errors: kInvalidArgument if no extent does that.
absl::StatusOr<std::vector<int64_t>> ResolveShape(
    absl::Span<const int64_t> shape, int64_t elements);

// The strides by which a tensor of `shape` and `strides` has a view of
// `new_shape` with its elements in the same order, or nothing if there is none.
// Both shapes have the same number of elements, which is not 0 and which, times
// any stride, does not overflow.
std::optional<std::vector<int64_t>> ReshapedStrides(
    absl::Span<const int64_t> shape, absl::Span<const int64_t> strides,
    absl::Span<const int64_t> new_shape);

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_TENSOR_SPEC_RESHAPE_H_
