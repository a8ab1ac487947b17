// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/strided_copy.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/status_macros.h"
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

void CheckMatch(const TensorSpec& to, const TensorSpec& from) {
  TENON_CHECK(
      to.shape() == from.shape() && to.element_bytes() == from.element_bytes(),
      "StridedCopy() of tensors of different shape or dtype");
}

// The dimensions outside of the runs, and the bytes of a run.
struct Runs {
  absl::Span<const Dimension> outer;
  size_t bytes;
};

Runs RunsOf(const Plan& plan, size_t size) {
  const absl::Span<const Dimension> all(plan.dimensions.data(), plan.rank);
  const auto stride = static_cast<int64_t>(size);
  if (all.empty() || all.back().to != stride || all.back().from != stride) {
    return {all, size};
  }
  return {all.first(all.size() - 1),
          static_cast<size_t>(all.back().extent) * size};
}

// Adding negative strides modulo 2^64 is exact, as each sum is an offset.
absl::Status ForEachRunIn(
    absl::Span<const Dimension> outer, const StridedRun& first,
    absl::FunctionRef<absl::Status(const StridedRun&)> copy) {
  if (outer.empty()) return copy(first);
  StridedRun run = first;
  for (int64_t i = 0; i < outer.front().extent; ++i) {
    TENON_RETURN_IF_ERROR(ForEachRunIn(outer.subspan(1), run, copy));
    run.to += static_cast<uint64_t>(outer.front().to);
    run.from += static_cast<uint64_t>(outer.front().from);
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t CountRuns(const TensorSpec& to, const TensorSpec& from) {
  CheckMatch(to, from);
  if (to.elements() == 0) return 0;
  const Plan plan = PlanFor(to, from);
  uint64_t runs = 1;
  for (const Dimension& outer :
       RunsOf(plan, static_cast<size_t>(to.element_bytes())).outer) {
    runs *= static_cast<uint64_t>(outer.extent);
  }
  return runs;
}

absl::Status ForEachRun(
    const TensorSpec& to, const TensorSpec& from,
    absl::FunctionRef<absl::Status(const StridedRun& run)> copy) {
  CheckMatch(to, from);
  if (to.elements() == 0) return absl::OkStatus();
  const Plan plan = PlanFor(to, from);
  const Runs runs = RunsOf(plan, static_cast<size_t>(to.element_bytes()));
  return ForEachRunIn(
      runs.outer,
      {.to = to.byte_offset(), .from = from.byte_offset(), .bytes = runs.bytes},
      copy);
}

void StridedCopy(const ElementsTo& to, const ElementsFrom& from) {
  CheckMatch(to.spec, from.spec);
  if (to.spec.elements() == 0) return;
  const Plan plan = PlanFor(to.spec, from.spec);
  CopyBlock(absl::MakeConstSpan(plan.dimensions.data(), plan.rank),
            static_cast<size_t>(to.spec.element_bytes()),
            to.storage + to.spec.byte_offset(),
            from.storage + from.spec.byte_offset());
}

}  // namespace tenon
