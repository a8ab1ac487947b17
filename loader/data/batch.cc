// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/base/copy_from_shared.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {
namespace {

absl::Status InTensor(const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("Batch::tensor(): ", status.message()));
}

}  // namespace

absl::StatusOr<Batch> Batch::Create(Contents contents,
                                    std::shared_ptr<const BatchLayout> layout,
                                    std::shared_ptr<Storage> storage) {
  std::vector<FittedSpec> table;
  if (layout->rows() > 0) {
    TENON_ASSIGN_OR_RETURN(const std::byte* const block, storage->Read());
    TENON_ASSIGN_OR_RETURN(
        table, layout->ReadTable(std::span(block, storage->size_bytes()),
                                 contents.size));
  }
  return Batch(std::move(contents), std::move(layout), std::move(storage),
               std::move(table));
}

absl::StatusOr<Batch> Batch::Over(std::shared_ptr<Storage> storage) const {
  if (storage->size_bytes() < storage_->size_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Batch::Over(): storage of ", SizeText(storage->size_bytes()),
        " for a block of ", SizeText(storage_->size_bytes())));
  }
  return Batch(contents_, layout_, std::move(storage), table_);
}

absl::StatusOr<Tensor> Batch::tensor(absl::string_view name) const {
  const absl::StatusOr<int> t = layout_->FindTensor(name);
  if (!t.ok()) return InTensor(t.status());
  return tensor(*t);
}

absl::StatusOr<Tensor> Batch::tensor(int f) const {
  if (const absl::Status known = layout_->CheckTensor(f); !known.ok()) {
    return InTensor(known);
  }
  const BatchLayout::BatchTensor& found =
      layout_->tensors()[static_cast<size_t>(f)];
  if (layout_->unbatched() && size() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("Batch::tensor(): no '", found.name,
                     "', as the sample was skipped; see Batch::skipped()"));
  }
  if (found.row >= 0) {
    return Tensor(table_[static_cast<size_t>(found.row)], storage_);
  }
  const FittedSpec& full =
      layout_->fields()[static_cast<size_t>(found.field)].tensor;
  if (layout_->unbatched()) {
    TENON_ASSIGN_OR_RETURN(const TensorSpec sample, full.spec().Select(0, 0));
    return Tensor::FromSpec(sample, storage_);
  }
  if (size() == layout_->batch_size()) return Tensor(full, storage_);
  TENON_ASSIGN_OR_RETURN(
      const TensorSpec part,
      full.spec().Slice(0, {.start = 0, .stop = size(), .step = 1}));
  return Tensor::FromSpec(part, storage_);
}

absl::StatusOr<absl::string_view> Batch::text(absl::string_view name,
                                              int64_t i) const {
  TENON_ASSIGN_OR_RETURN(const Tensor values, tensor(name));
  const int t = layout_->FindTensor(name).value_or(0);
  const auto& found = layout_->tensors()[static_cast<size_t>(t)];
  if (layout_->fields()[static_cast<size_t>(found.field)].declared.kind !=
          FieldKind::kText ||
      found.name != layout_->fields()[static_cast<size_t>(found.field)].name) {
    return absl::InvalidArgumentError(
        absl::StrCat("Batch::text(): field '", name,
                     "' is not one of SampleSpec::AddText()"));
  }
  if (i < 0 || i >= size()) {
    return absl::OutOfRangeError(absl::StrCat(
        "Batch::text(): sample ", i, " of a batch of ", size(), " samples"));
  }
  TENON_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes,
                         values.data<const uint8_t>());
  const absl::string_view all(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size());
  if (layout_->unbatched()) return all;
  TENON_ASSIGN_OR_RETURN(const absl::Span<const int64_t> offsets,
                         data<int64_t>(absl::StrCat(name, ".offsets")));
  if (std::ssize(offsets) != size() + 1) {
    return absl::DataLossError(absl::StrCat("Batch::text(): field '", name,
                                            "' has ", offsets.size(),
                                            " offsets; want ", size() + 1));
  }
  const auto at = static_cast<size_t>(i);
  // A worker may write them meanwhile.
  const int64_t begin = CopyFromShared(&offsets[at]);
  const int64_t end = CopyFromShared(&offsets[at + 1]);
  if (begin < 0 || end < begin || end > std::ssize(all)) {
    return absl::DataLossError(absl::StrCat(
        "Batch::text(): sample ", i, " of field '", name, "' is from ", begin,
        " to ", end, " of ", SizeText(all.size())));
  }
  return all.substr(static_cast<size_t>(begin),
                    static_cast<size_t>(end - begin));
}

int64_t Batch::total_bytes() const {
  int64_t total = 0;
  for (const BatchLayout::Field& field : layout_->fields()) {
    total += field.sample_bytes * size();
  }
  for (const FittedSpec& row : table_) total += row.spec().bytes();
  return total;
}

}  // namespace tenon::loader
