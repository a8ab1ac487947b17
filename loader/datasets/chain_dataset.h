// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ChainDataset: several iterable datasets, one after the other.

#ifndef TENON_LOADER_DATASETS_CHAIN_DATASET_H_
#define TENON_LOADER_DATASETS_CHAIN_DATASET_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample_spec.h"

namespace tenon::loader {

// Shard s is shard s of the first dataset, then that of the second, and so on.
// A shard is opened when the one before it has ended; an error of opening it
// is that of a sample.
class ChainDataset : public IterableDataset {
 public:
  // Errors: kInvalidArgument for no datasets, a null one, and for datasets with
  // different fields or numbers of shards.
  static absl::StatusOr<std::unique_ptr<ChainDataset>> Create(
      std::vector<std::unique_ptr<IterableDataset>> datasets);

  int64_t shards() const override { return datasets_[0]->shards(); }
  // The fewest of the datasets'.
  int64_t open_shards() const override;
  SampleSpec spec() const override { return datasets_[0]->spec(); }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t epoch) override;
  // That of the first dataset.
  absl::Status Collate(Collation& batch) override {
    return datasets_[0]->Collate(batch);
  }

 private:
  explicit ChainDataset(std::vector<std::unique_ptr<IterableDataset>> datasets)
      : datasets_(std::move(datasets)) {}

  std::vector<std::unique_ptr<IterableDataset>> datasets_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATASETS_CHAIN_DATASET_H_
