// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TransformDataset: the samples of a map-style dataset, changed by a function.
// For an iterable one: transform_stream.h.

#ifndef TENON_LOADER_DATASETS_TRANSFORM_DATASET_H_
#define TENON_LOADER_DATASETS_TRANSFORM_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/datasets/scratch_sample.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::loader {

struct TransformOptions {
  // The function may be called by several threads at the same time. The samples
  // are then thread_safe() if the dataset is.
  bool thread_safe = false;
};

// Dataset::GetBatch() of the dataset is not used: the function draws after it.
class TransformDataset : public Dataset {
 public:
  // Changes a sample in its place in the batch.
  using InPlace = std::function<absl::Status(SampleRandom&, Sample&)>;
  // Writes every byte of `to`, from a sample that is in memory of its own.
  using FromTo = std::function<absl::Status(const Sample& from, SampleRandom&,
                                            Sample& to)>;

  // The same fields. Errors: kInvalidArgument for a null or iterable dataset
  // and for no function.
  static absl::StatusOr<std::unique_ptr<TransformDataset>> Create(
      std::unique_ptr<Dataset> dataset, InPlace function,
      const TransformOptions& options = {});
  // Samples with the fields of `spec`. Errors: also those of both specs.
  static absl::StatusOr<std::unique_ptr<TransformDataset>> Create(
      std::unique_ptr<Dataset> dataset, const SampleSpec& spec, FromTo function,
      const TransformOptions& options = {});

  int64_t size() const override { return dataset_->size(); }
  SampleSpec spec() const override { return spec_; }
  // The function draws after the dataset, from the same random numbers.
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override;
  // That of the dataset; there is none for another spec.
  absl::Status Collate(Collation& batch) override;
  bool thread_safe() const override {
    return options_.thread_safe && dataset_->thread_safe();
  }

 private:
  TransformDataset(std::unique_ptr<Dataset> dataset, const SampleSpec& spec,
                   const TransformOptions& options);

  // One that no thread uses.
  absl::StatusOr<std::unique_ptr<ScratchSample>> TakeScratch();
  void ReturnScratch(std::unique_ptr<ScratchSample> scratch);

  std::unique_ptr<Dataset> dataset_;
  SampleSpec spec_;
  const TransformOptions options_;
  InPlace in_place_;
  FromTo from_to_;
  ThreadMutex mutex_;
  // For from_to_: as many as have been in use at the same time.
  std::vector<std::unique_ptr<ScratchSample>> scratch_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATASETS_TRANSFORM_DATASET_H_
