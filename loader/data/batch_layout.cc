// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/base/copy_from_shared.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {
namespace {

// A tensor of `batch_size` samples at `offset`.
absl::StatusOr<TensorSpec> Batched(const SampleSpec::Field& field,
                                   int64_t batch_size, int64_t offset) {
  std::vector<int64_t> shape = {batch_size};
  shape.insert(shape.end(), field.tensor.shape().begin(),
               field.tensor.shape().end());
  absl::StatusOr<TensorSpec> tensor = TensorSpec::Contiguous(
      field.tensor.dtype(), shape, static_cast<uint64_t>(offset));
  if (tensor.ok()) return tensor;
  return absl::InvalidArgumentError(absl::StrCat(
      "a batch of ", batch_size, " samples of field '", field.name, "' (",
      field.tensor.ToString(), "): ", tensor.status().message()));
}

absl::Status TooLarge(const SampleSpec& spec, int64_t batch_size) {
  return absl::InvalidArgumentError(
      absl::StrCat("a batch of ", batch_size, " samples of ", spec.ToString(),
                   " is larger than 2^63-1 bytes"));
}

// Offsets are multiples of this.
int64_t Aligned(int64_t offset) {
  return (offset + BatchLayout::kAlignment - 1) / BatchLayout::kAlignment *
         BatchLayout::kAlignment;
}

template <typename Named>
absl::StatusOr<int> FindName(const std::vector<Named>& all,
                             absl::string_view name) {
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name == name) return static_cast<int>(i);
  }
  return absl::NotFoundError(absl::StrCat(
      "there is no field '", name, "'; the fields are: ",
      absl::StrJoin(all, ", ", [](std::string* to, const Named& named) {
        to->append(named.name);
      })));
}

}  // namespace

absl::StatusOr<BatchLayout> BatchLayout::Create(
    const SampleSpec& spec, std::optional<int64_t> batch_size) {
  TENON_RETURN_IF_ERROR(spec.status());
  if (batch_size && *batch_size <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size must be positive, not ", *batch_size));
  }
  BatchLayout layout;
  layout.batch_size_ = batch_size.value_or(1);
  layout.unbatched_ = !batch_size.has_value();
  TENON_RETURN_IF_ERROR(layout.Place(spec));
  layout.NameTensors();
  return layout;
}

absl::Status BatchLayout::Place(const SampleSpec& spec) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() - kAlignment;
  std::vector<TensorSpec> tensors;
  int64_t offset = 0;
  for (const SampleSpec::Field& field : spec.fields()) {
    fields_.push_back({.name = field.name, .tensor = {}, .declared = field});
    if (field.kind != FieldKind::kFixed) {
      fields_.back().varying = varying_++;
      // For the dtype.
      TENON_ASSIGN_OR_RETURN(const TensorSpec none,
                             TensorSpec::Contiguous(field.tensor.dtype(), {0}));
      tensors.push_back(none);
      continue;
    }
    TENON_ASSIGN_OR_RETURN(const TensorSpec tensor,
                           Batched(field, batch_size_, offset));
    tensors.push_back(tensor);
    fields_.back().sample_bytes = field.tensor.bytes();
    fields_.back().offset = offset;
    const int64_t end = offset + tensor.bytes();  // Contiguous() checked it.
    if (end > kMost) return TooLarge(spec, batch_size_);
    offset = Aligned(end);
  }
  for (Field& field : fields_) {
    if (field.declared.kind == FieldKind::kFixed) continue;
    field.first_row = rows_;
    rows_ += static_cast<int>(BatchNames(field).size());
  }
  table_offset_ = offset;
  const auto table = static_cast<int64_t>(sizeof(TensorSpec)) * rows_;
  if (offset > kMost - table) return TooLarge(spec, batch_size_);
  // Fields of no bytes still need memory to point at.
  total_bytes_ = std::max(Aligned(offset + table), kAlignment);
  for (size_t f = 0; f < tensors.size(); ++f) {
    TENON_ASSIGN_OR_RETURN(
        fields_[f].tensor,
        FittedSpec::Check(tensors[f], static_cast<uint64_t>(total_bytes_)));
  }
  return absl::OkStatus();
}

std::vector<std::string> BatchLayout::BatchNames(const Field& field) const {
  std::vector<std::string> names = field.declared.BatchNames();
  if (unbatched_) names.resize(std::min<size_t>(names.size(), 1));
  return names;
}

void BatchLayout::NameTensors() {
  for (size_t f = 0; f < fields_.size(); ++f) {
    const Field& field = fields_[f];
    std::vector<std::string> names = BatchNames(field);
    for (size_t i = 0; i < names.size(); ++i) {
      BatchTensor tensor = {.name = std::move(names[i]),
                            .field = static_cast<int>(f),
                            .dtype = field.declared.tensor.dtype()};
      if (field.declared.kind != FieldKind::kFixed) {
        tensor.row = field.first_row + static_cast<int>(i);
      }
      if (i > 0) {
        tensor.dtype = field.declared.kind == FieldKind::kPacked
                           ? kDtypeOf<int32_t>
                           : kDtypeOf<int64_t>;
      }
      tensors_.push_back(std::move(tensor));
    }
  }
}

bool BatchLayout::MayHave(const SampleSpec::Field& field, int i,
                          int64_t samples, absl::Span<const int64_t> first,
                          absl::Span<const int64_t> shape) const {
  if (field.kind == FieldKind::kOutput || (unbatched_ && samples == 0)) {
    return true;
  }
  if (field.kind == FieldKind::kStacked) {
    return unbatched_ || (!shape.empty() && shape[0] == samples);
  }
  constexpr int64_t kAny = -1;
  std::vector<int64_t> want;
  if (unbatched_) {
    want = {kAny};
  } else if (field.kind == FieldKind::kPadded) {
    want = {samples, kAny};
    want.resize(i == 0 ? 2 : 1);
  } else if (field.kind == FieldKind::kPacked) {
    want = {i == 0 ? kAny : first[0], field.row_length};
  } else {
    want = {i == 0 ? kAny : samples + 1};
  }
  if (i == 0) {
    want.insert(want.end(), field.tensor.shape().begin(),
                field.tensor.shape().end());
  }
  return absl::c_equal(shape, want, [](int64_t extent, int64_t wanted) {
    return wanted == kAny || extent == wanted;
  });
}

absl::StatusOr<std::vector<FittedSpec>> BatchLayout::ReadTable(
    std::span<const std::byte> block, int64_t samples) const {
  std::vector<FittedSpec> table;
  if (rows_ == 0) return table;
  if (block.size() < static_cast<size_t>(total_bytes_)) {
    return absl::DataLossError(absl::StrCat(
        "block of ", SizeText(block.size()), " for a batch of at least ",
        SizeText(static_cast<uint64_t>(total_bytes_))));
  }
  table.resize(static_cast<size_t>(rows_));
  for (const BatchTensor& tensor : tensors_) {
    if (tensor.row < 0) continue;
    const auto row = static_cast<size_t>(tensor.row);
    const auto spec = CopyFromShared(reinterpret_cast<const TensorSpec*>(
        block.data() + table_offset_ + row * sizeof(TensorSpec)));
    if (!SameDtype(spec.dtype(), tensor.dtype)) {
      return absl::DataLossError(absl::StrCat(
          "tensor '", tensor.name, "' of a batch is ", DtypeName(spec.dtype()),
          "; want ", DtypeName(tensor.dtype)));
    }
    const absl::StatusOr<FittedSpec> fitted =
        FittedSpec::Check(spec, block.size());
    if (!fitted.ok()) {
      return absl::DataLossError(
          absl::StrCat("tensor '", tensor.name,
                       "' of a batch: ", fitted.status().message()));
    }
    table[row] = *fitted;
    const Field& field = fields_[static_cast<size_t>(tensor.field)];
    const auto first_row = static_cast<size_t>(field.first_row);
    if (!spec.is_contiguous() ||
        !MayHave(field.declared, static_cast<int>(row - first_row), samples,
                 table[first_row].spec().shape(), spec.shape())) {
      return absl::DataLossError(absl::StrCat(
          "tensor '", tensor.name, "' of a batch of ", samples, " samples is ",
          spec.ToString(), ", which the field cannot have"));
    }
  }
  return table;
}

absl::StatusOr<int> BatchLayout::Find(absl::string_view name) const {
  return FindName(fields_, name);
}

absl::StatusOr<int> BatchLayout::FindTensor(absl::string_view name) const {
  return FindName(tensors_, name);
}

absl::Status BatchLayout::CheckTensor(int t) const {
  if (t >= 0 && static_cast<size_t>(t) < tensors_.size()) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(absl::StrCat(
      "there is no field ", t, "; there are ", tensors_.size(), " fields"));
}

}  // namespace tenon::loader
