// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/datasets/transform_dataset.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/datasets/members.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

constexpr char kCreate[] = "TransformDataset::Create()";

absl::Status CheckParts(const Dataset* dataset, bool has_function) {
  if (dataset == nullptr || !has_function) {
    return absl::InvalidArgumentError(
        absl::StrCat(kCreate, ": the ",
                     dataset == nullptr ? "dataset" : "function", " is null"));
  }
  return CheckMapStyle(kCreate, 0, *dataset);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TransformDataset>> TransformDataset::Create(
    std::unique_ptr<Dataset> dataset, InPlace function) {
  TENON_RETURN_IF_ERROR(CheckParts(dataset.get(), function != nullptr));
  const SampleSpec spec = dataset->spec();
  auto made = absl::WrapUnique(new TransformDataset(std::move(dataset), spec));
  made->in_place_ = std::move(function);
  return made;
}

absl::StatusOr<std::unique_ptr<TransformDataset>> TransformDataset::Create(
    std::unique_ptr<Dataset> dataset, const SampleSpec& spec, FromTo function) {
  TENON_RETURN_IF_ERROR(CheckParts(dataset.get(), function != nullptr));
  TENON_RETURN_IF_ERROR(spec.status());
  TENON_ASSIGN_OR_RETURN(auto from, ScratchSample::Create(dataset->spec()));
  auto made = absl::WrapUnique(new TransformDataset(std::move(dataset), spec));
  made->from_to_ = std::move(function);
  made->from_ = std::move(from);
  return made;
}

TransformDataset::TransformDataset(std::unique_ptr<Dataset> dataset,
                                   const SampleSpec& spec)
    : dataset_(std::move(dataset)), spec_(spec) {}

absl::Status TransformDataset::Get(int64_t index, SampleRandom& random,
                                   Sample& sample) {
  if (in_place_ != nullptr) {
    TENON_RETURN_IF_ERROR(dataset_->Get(index, random, sample));
    return in_place_(random, sample);
  }
  Sample from = from_->Reset();
  TENON_RETURN_IF_ERROR(dataset_->Get(index, random, from));
  return from_to_(from, random, sample);
}

absl::Status TransformDataset::Collate(Collation& batch) {
  return in_place_ != nullptr ? dataset_->Collate(batch)
                              : Dataset::Collate(batch);
}

}  // namespace tenon::loader
