// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/tensor_spec_reshape.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

namespace tenon {
namespace {

// A run of dimensions that one stride covers.
struct Run {
  int64_t extent;
  int64_t stride;  // Of its last dimension.
};

// Joins dimensions that are dense in one another; those of extent 1 vanish.
std::vector<Run> RunsOf(absl::Span<const int64_t> shape,
                        absl::Span<const int64_t> strides) {
  std::vector<Run> runs;
  for (size_t i = 0; i < shape.size(); ++i) {
    const Run next = {shape[i], strides[i]};
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

}  // namespace

absl::StatusOr<std::vector<int64_t>> ResolveShape(
    absl::Span<const int64_t> shape, int64_t elements) {
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

// Each run must be filled by dimensions of the new shape exactly.
std::optional<std::vector<int64_t>> ReshapedStrides(
    absl::Span<const int64_t> shape, absl::Span<const int64_t> strides,
    absl::Span<const int64_t> new_shape) {
  std::vector<Run> runs = RunsOf(shape, strides);
  std::vector<int64_t> reshaped(new_shape.size());
  for (size_t i = new_shape.size(); i-- > 0;) {
    const int64_t extent = new_shape[i];
    if (extent == 1) {
      reshaped[i] = runs.empty() ? 1 : runs.back().stride;
      continue;
    }
    if (runs.empty() || runs.back().extent % extent != 0) return std::nullopt;
    Run& run = runs.back();
    reshaped[i] = run.stride;
    run.extent /= extent;
    // Multiplied only within the run: the product is within the spec's reach
    // and cannot overflow.
    if (run.extent == 1) {
      runs.pop_back();
    } else {
      run.stride *= extent;
    }
  }
  return reshaped;
}

}  // namespace tenon
