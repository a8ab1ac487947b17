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
#include "tenon/loader/datasets/scratch_sample.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"

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
    std::unique_ptr<Dataset> dataset, InPlace function,
    const TransformOptions& options) {
  TENON_RETURN_IF_ERROR(CheckParts(dataset.get(), function != nullptr));
  const SampleSpec spec = dataset->spec();
  auto made =
      absl::WrapUnique(new TransformDataset(std::move(dataset), spec, options));
  made->in_place_ = std::move(function);
  return made;
}

absl::StatusOr<std::unique_ptr<TransformDataset>> TransformDataset::Create(
    std::unique_ptr<Dataset> dataset, const SampleSpec& spec, FromTo function,
    const TransformOptions& options) {
  TENON_RETURN_IF_ERROR(CheckParts(dataset.get(), function != nullptr));
  TENON_RETURN_IF_ERROR(spec.status());
  auto made =
      absl::WrapUnique(new TransformDataset(std::move(dataset), spec, options));
  made->from_to_ = std::move(function);
  TENON_ASSIGN_OR_RETURN(auto scratch, made->TakeScratch());
  made->ReturnScratch(std::move(scratch));
  return made;
}

TransformDataset::TransformDataset(std::unique_ptr<Dataset> dataset,
                                   const SampleSpec& spec,
                                   const TransformOptions& options)
    : dataset_(std::move(dataset)), spec_(spec), options_(options) {}

absl::StatusOr<std::unique_ptr<ScratchSample>> TransformDataset::TakeScratch() {
  {
    const ThreadLock lock(&mutex_);
    if (!scratch_.empty()) {
      std::unique_ptr<ScratchSample> scratch = std::move(scratch_.back());
      scratch_.pop_back();
      return scratch;
    }
  }
  return ScratchSample::Create(dataset_->spec());
}

void TransformDataset::ReturnScratch(std::unique_ptr<ScratchSample> scratch) {
  const ThreadLock lock(&mutex_);
  scratch_.push_back(std::move(scratch));
}

absl::Status TransformDataset::Get(int64_t index, SampleRandom& random,
                                   Sample& sample) {
  if (in_place_ != nullptr) {
    TENON_RETURN_IF_ERROR(dataset_->Get(index, random, sample));
    return in_place_(random, sample);
  }
  TENON_ASSIGN_OR_RETURN(auto scratch, TakeScratch());
  Sample from = scratch->Reset();
  absl::Status status = dataset_->Get(index, random, from);
  if (status.ok()) status = from_to_(from, random, sample);
  // After an exception it is made anew.
  ReturnScratch(std::move(scratch));
  return status;
}

absl::Status TransformDataset::Collate(Collation& batch) {
  return in_place_ != nullptr ? dataset_->Collate(batch)
                              : Dataset::Collate(batch);
}

}  // namespace tenon::loader
