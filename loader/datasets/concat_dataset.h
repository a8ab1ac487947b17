// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ConcatDataset: the samples of several datasets, one dataset after the other.

#ifndef TENON_LOADER_DATASETS_CONCAT_DATASET_H_
#define TENON_LOADER_DATASETS_CONCAT_DATASET_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {

// Dataset::GetBatch() of its members is not used.
class ConcatDataset : public Dataset {
 public:
  // Errors: kInvalidArgument for no datasets, a null or iterable one, one of a
  // negative size, more than 2^63-1 samples, and for datasets with different
  // fields, naming both.
  static absl::StatusOr<std::unique_ptr<ConcatDataset>> Create(
      std::vector<std::unique_ptr<Dataset>> datasets);

  int64_t size() const override { return ends_.back(); }
  SampleSpec spec() const override { return datasets_[0]->spec(); }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override;
  // That of the first dataset.
  absl::Status Collate(Collation& batch) override {
    return datasets_[0]->Collate(batch);
  }
  // If all datasets are.
  bool thread_safe() const override;

 private:
  ConcatDataset(std::vector<std::unique_ptr<Dataset>> datasets,
                std::vector<int64_t> ends)
      : datasets_(std::move(datasets)), ends_(std::move(ends)) {}

  std::vector<std::unique_ptr<Dataset>> datasets_;
  std::vector<int64_t> ends_;  // Of the indices of each.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATASETS_CONCAT_DATASET_H_
