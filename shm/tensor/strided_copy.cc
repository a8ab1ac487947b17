// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/strided_copy.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace {

// Strides in bytes. No extent is below 2.
struct Dimension {
  int64_t extent;
  int64_t to;
  int64_t from;
};

struct Plan {
  std::array<Dimension, TensorSpec::kMaxRank> dimensions;
  size_t rank = 0;

  // Adds an innermost dimension, or extends the current innermost one if the
  // two are dense in one another.
  void Add(const Dimension& inner) {
    if (rank > 0) {
      Dimension& outer = dimensions[rank - 1];
      // Strides that fit a storage are far from where this overflows.
      if (outer.to == inner.extent * inner.to &&
          outer.from == inner.extent * inner.from) {
        outer = {outer.extent * inner.extent, inner.to, inner.from};
        return;
      }
    }
    dimensions[rank++] = inner;
  }
};

Plan PlanFor(const TensorSpec& to, const TensorSpec& from) {
  const int64_t size = to.element_bytes();
  Plan plan;
  for (int i = 0; i < to.rank(); ++i) {
    // The stride of a dimension of one is never used, and may be anything.
    if (to.shape()[i] == 1) continue;
    plan.Add({.extent = to.shape()[i],
              .to = to.strides()[i] * size,
              .from = from.strides()[i] * size});
  }
  return plan;
}

// Copies element by element; fast because the size is a constant.
template <size_t kSize>
void CopyRow(const Dimension& row, std::byte* to, const std::byte* from) {
  for (int64_t i = 0; i < row.extent; ++i) {
    std::memcpy(to + i * row.to, from + i * row.from, kSize);
  }
}

void CopyRow(const Dimension& row, size_t size, std::byte* to,
             const std::byte* from) {
  const auto stride = static_cast<int64_t>(size);
  if (row.to == stride && row.from == stride) {
    std::memcpy(to, from, static_cast<size_t>(row.extent) * size);
    return;
  }
  switch (size) {
    case 1:
      return CopyRow<1>(row, to, from);
    case 2:
      return CopyRow<2>(row, to, from);
    case 4:
      return CopyRow<4>(row, to, from);
    case 8:
      return CopyRow<8>(row, to, from);
    case 16:
      return CopyRow<16>(row, to, from);
    default:
      for (int64_t i = 0; i < row.extent; ++i) {
        std::memcpy(to + i * row.to, from + i * row.from, size);
      }
  }
}

// Recursion as deep as the rank. Every computed address is that of an element.
void CopyBlock(absl::Span<const Dimension> dimensions, size_t size,
               std::byte* to, const std::byte* from) {
  if (dimensions.empty()) {
    std::memcpy(to, from, size);
    return;
  }
  const Dimension& outer = dimensions.front();
  if (dimensions.size() == 1) return CopyRow(outer, size, to, from);
  for (int64_t i = 0; i < outer.extent; ++i) {
    CopyBlock(dimensions.subspan(1), size, to + i * outer.to,
              from + i * outer.from);
  }
}

}  // namespace

void StridedCopy(const ElementsTo& to, const ElementsFrom& from) {
  TENON_CHECK(to.spec.shape() == from.spec.shape() &&
                  to.spec.element_bytes() == from.spec.element_bytes(),
              "StridedCopy() of tensors of different shape or dtype");
  if (to.spec.elements() == 0) return;
  const Plan plan = PlanFor(to.spec, from.spec);
  CopyBlock(absl::MakeConstSpan(plan.dimensions.data(), plan.rank),
            static_cast<size_t>(to.spec.element_bytes()),
            to.storage + to.spec.byte_offset(),
            from.storage + from.spec.byte_offset());
}

}  // namespace tenon
