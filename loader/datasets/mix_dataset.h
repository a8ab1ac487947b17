// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// MixDataset: samples of several iterable datasets, drawn by weights.

#ifndef TENON_LOADER_DATASETS_MIX_DATASET_H_
#define TENON_LOADER_DATASETS_MIX_DATASET_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample_spec.h"

namespace tenon::loader {

// A weight for each dataset in an epoch; they need not sum up to 1.
using MixWeights = std::function<std::vector<double>(int64_t epoch)>;

// Each sample is the next one of a dataset that is drawn among those that have
// not ended, in proportion to their weights. A dataset of weight 0 is not used.
// The shard ends with the last of the others. Shard s mixes the shards s of
// all. The draws are the samples' random numbers: they do not depend on
// workers. To mix datasets by index, use a WeightedSampler over a
// ConcatDataset.
class MixDataset : public IterableDataset {
 public:
  // `weights` is called in workers, when a shard is opened; it must give the
  // same for the same epoch in each of them.
  // Errors: kInvalidArgument for no datasets, a null one, no weights, and for
  // datasets with different fields or numbers of shards.
  static absl::StatusOr<std::unique_ptr<MixDataset>> Create(
      std::vector<std::unique_ptr<IterableDataset>> datasets,
      MixWeights weights);

  int64_t shards() const override { return datasets_[0]->shards(); }
  // The fewest of the datasets'.
  int64_t open_shards() const override;
  SampleSpec spec() const override { return datasets_[0]->spec(); }
  // Errors: also kInvalidArgument if there are not as many weights as datasets,
  // one is negative, infinite or not a number, or their sum is 0 or infinite.
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t epoch) override;
  // That of the first dataset.
  absl::Status Collate(Collation& batch) override {
    return datasets_[0]->Collate(batch);
  }

 private:
  MixDataset(std::vector<std::unique_ptr<IterableDataset>> datasets,
             MixWeights weights)
      : datasets_(std::move(datasets)), weights_(std::move(weights)) {}

  std::vector<std::unique_ptr<IterableDataset>> datasets_;
  MixWeights weights_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATASETS_MIX_DATASET_H_
