// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {
namespace {

absl::Status InTensor(const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("Batch::tensor(): ", status.message()));
}

}  // namespace

absl::StatusOr<Tensor> Batch::tensor(absl::string_view name) const {
  const absl::StatusOr<int> f = layout_->Find(name);
  if (!f.ok()) return InTensor(f.status());
  return tensor(*f);
}

absl::StatusOr<Tensor> Batch::tensor(int f) const {
  if (const absl::Status known = layout_->Check(f); !known.ok()) {
    return InTensor(known);
  }
  const FittedSpec& full = layout_->fields()[static_cast<size_t>(f)].tensor;
  if (size() == layout_->batch_size()) return Tensor(full, storage_);
  TENON_ASSIGN_OR_RETURN(
      const TensorSpec part,
      full.spec().Slice(0, {.start = 0, .stop = size(), .step = 1}));
  return Tensor::FromSpec(part, storage_);
}

int64_t Batch::total_bytes() const {
  int64_t total = 0;
  for (const BatchLayout::Field& field : layout_->fields()) {
    total += field.sample_bytes * size();
  }
  return total;
}

}  // namespace tenon::loader
