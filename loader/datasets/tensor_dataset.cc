// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/datasets/tensor_dataset.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

absl::Status Refused(const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("TensorDataset::Create(): ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorDataset>> TensorDataset::Create(
    const std::vector<std::string>& names, const std::vector<Tensor>& tensors) {
  if (tensors.empty()) return Refused("there are no tensors");
  if (names.size() != tensors.size()) {
    return Refused(absl::StrCat("there are ", names.size(), " names for ",
                                tensors.size(), " tensors"));
  }
  SampleSpec spec;
  for (size_t f = 0; f < tensors.size(); ++f) {
    const absl::Span<const int64_t> shape = tensors[f].spec().shape();
    if (shape.empty()) {
      return Refused(absl::StrCat("'", names[f], "' is a scalar without rows"));
    }
    if (shape[0] != tensors[0].spec().shape()[0]) {
      return Refused(absl::StrCat("'", names[f], "' has ", shape[0], " rows, '",
                                  names[0], "' has ",
                                  tensors[0].spec().shape()[0]));
    }
    spec.Add(names[f], tensors[f].spec().dtype(), shape.subspan(1));
  }
  TENON_RETURN_IF_ERROR(spec.status());
  const int64_t size = tensors[0].spec().shape()[0];
  auto dataset = absl::WrapUnique(new TensorDataset(size, std::move(spec)));
  for (const Tensor& tensor : tensors) {
    Rows rows;
    TENON_ASSIGN_OR_RETURN(rows.tensor, tensor.Contiguous());
    TENON_ASSIGN_OR_RETURN(rows.bytes, rows.tensor.data<const std::byte>());
    if (size > 0)
      rows.row_bytes = rows.bytes.size() / static_cast<size_t>(size);
    dataset->fields_.push_back(std::move(rows));
  }
  return dataset;
}

absl::Status TensorDataset::Get(int64_t index, SampleRandom& /*random*/,
                                Sample& sample) {
  for (size_t f = 0; f < fields_.size(); ++f) {
    const Rows& rows = fields_[f];
    TENON_ASSIGN_OR_RETURN(const absl::Span<std::byte> to,
                           sample.data<std::byte>(static_cast<int>(f)));
    if (rows.row_bytes == 0) continue;
    std::memcpy(to.data(),
                rows.bytes.data() + static_cast<size_t>(index) * rows.row_bytes,
                rows.row_bytes);
  }
  return absl::OkStatus();
}

}  // namespace tenon::loader
