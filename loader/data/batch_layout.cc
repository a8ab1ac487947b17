// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch_layout.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/base/status_macros.h"
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

}  // namespace

absl::StatusOr<BatchLayout> BatchLayout::Create(const SampleSpec& spec,
                                                int64_t batch_size) {
  TENON_RETURN_IF_ERROR(spec.status());
  if (batch_size <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_size must be positive, not ", batch_size));
  }
  BatchLayout layout;
  layout.batch_size_ = batch_size;
  std::vector<TensorSpec> tensors;
  int64_t offset = 0;
  for (const SampleSpec::Field& field : spec.fields()) {
    TENON_ASSIGN_OR_RETURN(const TensorSpec tensor,
                           Batched(field, batch_size, offset));
    tensors.push_back(tensor);
    layout.fields_.push_back({.name = field.name,
                              .tensor = {},
                              .sample_bytes = field.tensor.bytes(),
                              .offset = offset});
    const int64_t end = offset + tensor.bytes();  // Contiguous() checked it.
    if (end > std::numeric_limits<int64_t>::max() - kAlignment) {
      return absl::InvalidArgumentError(
          absl::StrCat("a batch of ", batch_size, " samples of ",
                       spec.ToString(), " is larger than 2^63-1 bytes"));
    }
    offset = (end + kAlignment - 1) / kAlignment * kAlignment;
  }
  // Fields of no bytes still need memory to point at.
  layout.total_bytes_ = std::max(offset, kAlignment);
  for (size_t f = 0; f < tensors.size(); ++f) {
    TENON_ASSIGN_OR_RETURN(
        layout.fields_[f].tensor,
        FittedSpec::Check(tensors[f],
                          static_cast<uint64_t>(layout.total_bytes_)));
  }
  return layout;
}

absl::StatusOr<int> BatchLayout::Find(absl::string_view name) const {
  for (size_t f = 0; f < fields_.size(); ++f) {
    if (fields_[f].name == name) return static_cast<int>(f);
  }
  return absl::NotFoundError(absl::StrCat(
      "there is no field '", name, "'; the fields are: ",
      absl::StrJoin(fields_, ", ", [](std::string* to, const Field& field) {
        to->append(field.name);
      })));
}

absl::Status BatchLayout::Check(int f) const {
  if (f >= 0 && f < std::ssize(fields_)) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(
      "there is no field ", f, "; there are ", fields_.size(), " fields"));
}

}  // namespace tenon::loader
