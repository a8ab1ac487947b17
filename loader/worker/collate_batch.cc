// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/collate_batch.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/loader/collate/collate.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/catching.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {
namespace {

absl::Status PadWith(const std::string& padding, const Tensor& part) {
  TENON_ASSIGN_OR_RETURN(const absl::Span<std::byte> bytes,
                         part.data<std::byte>());
  for (size_t i = 0; i < bytes.size(); i += padding.size()) {
    std::memcpy(&bytes[i], padding.data(), padding.size());
  }
  return absl::OkStatus();
}

// The tensors of a field in a batch without samples.
absl::Status PlaceNone(const BatchLayout::Field& field, bool unbatched,
                       Collation& batch) {
  const DLDataType dtype = field.declared.tensor.dtype();
  const auto rest = field.declared.tensor.shape();
  const auto with_rest = [&](std::vector<int64_t> shape) {
    shape.insert(shape.end(), rest.begin(), rest.end());
    return shape;
  };
  const int row = field.first_row;
  if (unbatched) return batch.Place(row, dtype, {0}).status();
  switch (field.declared.kind) {
    case FieldKind::kPadded:
      TENON_RETURN_IF_ERROR(
          batch.Place(row, dtype, with_rest({0, 0})).status());
      return batch.Place(row + 1, kDtypeOf<int64_t>, {0}).status();
    case FieldKind::kRagged:
    case FieldKind::kText: {
      TENON_RETURN_IF_ERROR(batch.Place(row, dtype, with_rest({0})).status());
      TENON_ASSIGN_OR_RETURN(const Tensor offsets,
                             batch.Place(row + 1, kDtypeOf<int64_t>, {1}));
      return offsets.Fill(int64_t{0});
    }
    case FieldKind::kPacked: {
      const int64_t length = field.declared.row_length;
      TENON_RETURN_IF_ERROR(
          batch.Place(row, dtype, with_rest({0, length})).status());
      TENON_RETURN_IF_ERROR(
          batch.Place(row + 1, kDtypeOf<int32_t>, {0, length}).status());
      return batch.Place(row + 2, kDtypeOf<int32_t>, {0, length}).status();
    }
    default:
      return batch.Place(row, dtype, {0}).status();
  }
}

absl::Status PlaceOne(const BatchLayout::Field& field, const Tensor& sample,
                      Collation& batch) {
  TENON_ASSIGN_OR_RETURN(const Tensor to,
                         batch.Place(field.first_row, sample.spec().dtype(),
                                     sample.spec().shape()));
  return to.CopyFrom(sample);
}

absl::Status CollateField(int f, const BatchLayout& layout, Collation& batch) {
  const BatchLayout::Field& field = layout.fields()[static_cast<size_t>(f)];
  const SampleSpec::Field& declared = field.declared;
  if (declared.kind == FieldKind::kFixed ||
      declared.kind == FieldKind::kInput) {
    return absl::OkStatus();
  }
  if (batch.size() == 0) return PlaceNone(field, layout.unbatched(), batch);
  if (declared.kind == FieldKind::kOutput) return absl::OkStatus();
  const std::vector<Tensor> samples = batch.SamplesOf(f);
  if (layout.unbatched()) return PlaceOne(field, samples[0], batch);
  int row = field.first_row;
  const auto place = [&](DLDataType dtype, absl::Span<const int64_t> shape) {
    return batch.Place(row++, dtype, shape);
  };
  const auto pad = [&](const Tensor& part) {
    return PadWith(declared.padding, part);
  };
  switch (declared.kind) {
    case FieldKind::kPadded:
      return PadToLongestBy(samples, pad, place).status();
    case FieldKind::kPacked:
      return PackBy(samples, declared.row_length, pad, place).status();
    case FieldKind::kRagged:
    case FieldKind::kText:
      return Concatenate(samples, place).status();
    default:
      return Stack(samples, place).status();
  }
}

}  // namespace

absl::StatusOr<size_t> CollateBatch(Dataset& dataset, const BatchLayout& layout,
                                    const SampleScratch& scratch,
                                    int64_t samples,
                                    std::span<std::byte> memory,
                                    Collation::Grow grow) {
  if (layout.varying() == 0) return static_cast<size_t>(layout.total_bytes());
  Collation batch(layout, scratch, samples, memory);
  bool has_function = false;
  for (size_t f = 0; f < layout.fields().size(); ++f) {
    const SampleSpec::Field& field = layout.fields()[f].declared;
    has_function |=
        field.kind == FieldKind::kInput || field.kind == FieldKind::kOutput;
    const absl::Status collated =
        CollateField(static_cast<int>(f), layout, batch);
    if (!collated.ok()) {
      return absl::Status(
          collated.code(),
          absl::StrCat("field '", field.name, "': ", collated.message()));
    }
  }
  if (has_function && samples > 0) {
    const absl::Status collated =
        Catching("Dataset::Collate()", [&] { return dataset.Collate(batch); });
    if (!collated.ok()) {
      return absl::Status(collated.code(), absl::StrCat("Dataset::Collate(): ",
                                                        collated.message()));
    }
  }
  return batch.Finish(grow);
}

size_t NextBlockBytes(size_t block, size_t batch) {
  constexpr size_t kSlowly = 32;
  const size_t wanted = batch + batch / 4;
  if (batch > block) return wanted;
  return block - (block > wanted ? (block - wanted) / kSlowly : 0);
}

}  // namespace tenon::loader
