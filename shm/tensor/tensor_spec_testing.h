// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of tensor specs: specs of any bytes, and the offsets of elements by
// the definition.

#ifndef TENON_SHM_TENSOR_TENSOR_SPEC_TESTING_H_
#define TENON_SHM_TENSOR_TENSOR_SPEC_TESTING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

using Numbers = std::vector<int64_t>;

inline constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
inline constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();
inline constexpr DLDataType kByte = {kDLUInt, 8, 1};
inline constexpr DLDataType kShort = {kDLInt, 16, 1};
inline constexpr DLDataType kFloat32 = {kDLFloat, 32, 1};

// The bytes of a spec, for specs that no factory makes.
struct RawSpec {
  DLDataType dtype = kByte;
  int32_t rank = 0;
  uint64_t byte_offset = 0;
  int64_t shape[8] = {};
  int64_t strides[8] = {};
};
static_assert(sizeof(RawSpec) == sizeof(TensorSpec));

inline TensorSpec FromRaw(const RawSpec& raw) {
  TensorSpec spec;
  std::memcpy(static_cast<void*>(&spec), &raw, sizeof(raw));
  return spec;
}

inline RawSpec Raw(const Numbers& shape, const Numbers& strides,
                   uint64_t offset = 0) {
  RawSpec raw;
  raw.rank = static_cast<int32_t>(shape.size());
  raw.byte_offset = offset;
  std::copy(shape.begin(), shape.end(), raw.shape);
  std::copy(strides.begin(), strides.end(), raw.strides);
  return raw;
}

// Calls `visit` with every vector of `size` numbers out of [first, last].
inline void ForEach(size_t size, int64_t first, int64_t last,
                    const std::function<void(const Numbers&)>& visit) {
  Numbers numbers(size, first);
  for (;;) {
    visit(numbers);
    size_t i = size;
    while (i > 0 && numbers[i - 1] == last) numbers[--i] = first;
    if (i == 0) return;
    ++numbers[i - 1];
  }
}

// All indices of a shape in row-major order.
inline std::vector<Numbers> Indices(absl::Span<const int64_t> shape) {
  std::vector<Numbers> indices = {{}};
  for (const int64_t extent : shape) {
    std::vector<Numbers> longer;
    for (const Numbers& index : indices) {
      for (int64_t i = 0; i < extent; ++i) {
        longer.push_back(index);
        longer.back().push_back(i);
      }
    }
    indices = longer;
  }
  return indices;
}

// The offsets of the elements, in row-major order, by the definition.
inline Numbers PlainOffsets(absl::Span<const int64_t> shape,
                            absl::Span<const int64_t> strides, int64_t offset,
                            int64_t element_bytes) {
  Numbers offsets;
  for (const Numbers& index : Indices(shape)) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) at += index[i] * strides[i];
    offsets.push_back(offset + at * element_bytes);
  }
  return offsets;
}

inline Numbers OffsetsOf(const TensorSpec& spec) {
  return PlainOffsets(spec.shape(), spec.strides(),
                      static_cast<int64_t>(spec.byte_offset()),
                      spec.element_bytes());
}

inline Numbers ToVector(absl::Span<const int64_t> span) {
  return Numbers(span.begin(), span.end());
}

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_TENSOR_SPEC_TESTING_H_
