// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/loader.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/local_source.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/worker_source.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

constexpr int kMaxWorkers = 1024;
constexpr int kMaxPrefetch = 1024;

absl::Status CheckOptions(const LoaderOptions& options) {
  if (options.workers < 0 || options.workers > kMaxWorkers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "workers must be 0 to ", kMaxWorkers, ", not ", options.workers));
  }
  if (options.prefetch < 1 || options.prefetch > kMaxPrefetch) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prefetch must be 1 to ", kMaxPrefetch, ", not ", options.prefetch));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Loader>> Loader::Create(
    LoaderOptions options, std::unique_ptr<Sampler> sampler) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                         MakeDataset(options.dataset, options.dataset_config));
  if (sampler == nullptr) {
    sampler = std::make_unique<SequentialSampler>(dataset->size());
  }
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<Cancellation> cancellation,
                         Cancellation::Create());
  auto loader =
      absl::WrapUnique(new Loader(std::move(options), std::move(sampler),
                                  std::move(dataset), std::move(cancellation)));
  TENON_RETURN_IF_ERROR(loader->Start());
  return loader;
}

Loader::Loader(LoaderOptions options, std::unique_ptr<Sampler> sampler,
               std::unique_ptr<Dataset> dataset,
               std::unique_ptr<Cancellation> cancellation)
    : options_(std::move(options)),
      sampler_(std::move(sampler)),
      dataset_(std::move(dataset)),
      cancellation_(std::move(cancellation)) {}

Loader::~Loader() = default;

absl::Status Loader::Start() {
  TENON_ASSIGN_OR_RETURN(
      BatchLayout created,
      BatchLayout::Create(dataset_->fields(), options_.batch_size));
  auto layout = std::make_shared<const BatchLayout>(std::move(created));
  if (options_.workers == 0) {
    source_ = std::make_unique<LocalSource>(
        dataset_.get(), std::move(layout), options_.seed,
        options_.on_sample_error, cancellation_.get());
    return absl::OkStatus();
  }
  WorkerSetup setup = {
      .dataset = options_.dataset,
      .dataset_config = options_.dataset_config,
      .fields = layout->fields(),
      .batch_size = options_.batch_size,
      .seed = options_.seed,
      .on_error = options_.on_sample_error,
      .strategy = options_.strategy.value_or(GetSharingStrategy()),
      .name_prefix = ""};
  TENON_ASSIGN_OR_RETURN(
      source_, WorkerSource::Create(options_.workers, options_.prefetch,
                                    std::move(setup), std::move(layout),
                                    cancellation_.get()));
  return absl::OkStatus();
}

void Loader::StartEpoch(int64_t epoch) {
  if (!failure_.ok()) return;
  left_ = batches();
  source_->StartEpoch({.epoch = epoch,
                       .sampler = sampler_.get(),
                       .dataset_size = dataset_->size(),
                       .batch_size = options_.batch_size,
                       .batches = left_});
}

absl::StatusOr<std::optional<Batch>> Loader::Next(Deadline deadline) {
  TENON_RETURN_IF_ERROR(failure_);
  if (left_ == 0) return std::nullopt;
  absl::StatusOr<Batch> batch = source_->Next(deadline);
  if (absl::IsDeadlineExceeded(batch.status())) return batch.status();
  if (!batch.ok()) {
    failure_ = batch.status();
    source_.reset();  // Ends the workers.
    return failure_;
  }
  --left_;
  return *std::move(batch);
}

void Loader::Cancel() { cancellation_->Cancel(); }

int64_t Loader::samples() const {
  const int64_t all = sampler_->size();
  return options_.drop_last ? all - all % options_.batch_size : all;
}

int64_t Loader::batches() const {
  return (samples() + options_.batch_size - 1) / options_.batch_size;
}

std::vector<pid_t> Loader::worker_pids() const {
  return source_ == nullptr ? std::vector<pid_t>() : source_->WorkerPids();
}

}  // namespace tenon::loader
