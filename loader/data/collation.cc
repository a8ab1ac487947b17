// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/collation.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {

Collation::Collation(const BatchLayout& layout, const SampleScratch& scratch,
                     int64_t size, std::span<std::byte> memory)
    : layout_(layout),
      scratch_(scratch),
      size_(size),
      memory_(memory),
      storage_(Storage::FromLent({.data = memory.data(),
                                  .size_bytes = memory.size(),
                                  .writable = true,
                                  .lender = nullptr})),
      end_(static_cast<size_t>(layout.total_bytes())),
      rows_(static_cast<size_t>(layout.rows())) {}

absl::StatusOr<std::vector<Tensor>> Collation::samples(
    absl::string_view field) const {
  TENON_ASSIGN_OR_RETURN(const int f, layout_.Find(field));
  const BatchLayout::Field& found = layout_.fields()[static_cast<size_t>(f)];
  if (found.varying < 0 || found.declared.kind == FieldKind::kOutput) {
    return absl::InvalidArgumentError(
        absl::StrCat("Collation::samples(): field '", field,
                     "' has no tensors of samples; want one whose shape "
                     "differs from sample to sample"));
  }
  return SamplesOf(f);
}

std::vector<Tensor> Collation::SamplesOf(int f) const {
  std::vector<Tensor> tensors;
  tensors.reserve(static_cast<size_t>(size_));
  for (int64_t i = 0; i < size_; ++i) {
    tensors.push_back(scratch_.Find(f, i).value_or(Tensor()));
  }
  return tensors;
}

absl::StatusOr<Tensor> Collation::Create(absl::string_view field,
                                         absl::Span<const int64_t> shape) {
  TENON_ASSIGN_OR_RETURN(const int f, layout_.Find(field));
  const BatchLayout::Field& found = layout_.fields()[static_cast<size_t>(f)];
  if (found.declared.kind != FieldKind::kOutput) {
    return absl::InvalidArgumentError(
        absl::StrCat("Collation::Create(): field '", field,
                     "' is not one of SampleSpec::AddOutput()"));
  }
  if (rows_[static_cast<size_t>(found.first_row)].has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Collation::Create(): field '", field, "' has been made already"));
  }
  return Place(found.first_row, found.declared.tensor.dtype(), shape);
}

absl::Status Collation::Set(absl::string_view field, const Tensor& tensor) {
  TENON_ASSIGN_OR_RETURN(const Tensor made,
                         Create(field, tensor.spec().shape()));
  return made.CopyFrom(tensor);
}

absl::StatusOr<Tensor> Collation::Place(int row, DLDataType dtype,
                                        absl::Span<const int64_t> shape) {
  TENON_ASSIGN_OR_RETURN(const TensorSpec spec,
                         TensorSpec::Contiguous(dtype, shape, end_));
  const size_t end = end_ + static_cast<size_t>(spec.bytes());
  if (end > static_cast<size_t>(std::numeric_limits<int64_t>::max() -
                                BatchLayout::kAlignment)) {
    return absl::InvalidArgumentError("a batch is larger than 2^63-1 bytes");
  }
  Row placed = {.spec = spec, .tensor = {}};
  if (end > memory_.size()) {
    TENON_ASSIGN_OR_RETURN(
        placed.tensor,
        Tensor::Create(dtype, shape, MemoryInit::kUninitialized));
  } else {
    TENON_ASSIGN_OR_RETURN(placed.tensor, Tensor::FromSpec(spec, storage_));
  }
  constexpr size_t kAlignment = BatchLayout::kAlignment;
  end_ = (end + kAlignment - 1) / kAlignment * kAlignment;
  rows_[static_cast<size_t>(row)] = placed;
  return placed.tensor;
}

absl::StatusOr<size_t> Collation::Finish(Grow grow) {
  for (const BatchLayout::BatchTensor& tensor : layout_.tensors()) {
    if (tensor.row < 0 || rows_[static_cast<size_t>(tensor.row)].has_value()) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "Dataset::Collate() has not made field '", tensor.name, "'"));
  }
  const bool larger = end_ > memory_.size();
  std::span<std::byte> memory = memory_;
  if (larger) {
    TENON_ASSIGN_OR_RETURN(memory, grow(end_));
    std::memcpy(memory.data(), memory_.data(),
                static_cast<size_t>(layout_.total_bytes()));
  }
  for (size_t row = 0; row < rows_.size(); ++row) {
    const TensorSpec& spec = rows_[row]->spec;
    std::memcpy(memory.data() + layout_.table_offset() +
                    static_cast<int64_t>(row * sizeof(spec)),
                &spec, sizeof(spec));
    if (!larger || spec.bytes() == 0) continue;
    TENON_ASSIGN_OR_RETURN(const absl::Span<const std::byte> bytes,
                           rows_[row]->tensor.data<const std::byte>());
    std::memcpy(memory.data() + spec.byte_offset(), bytes.data(), bytes.size());
  }
  return end_;
}

}  // namespace tenon::loader
