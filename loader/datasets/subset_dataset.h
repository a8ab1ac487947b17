// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SubsetDataset: some samples of a dataset; RandomSplit(): subsets that share
// no sample.
//
//   absl::StatusOr<std::unique_ptr<Dataset>> PartOf(
//       std::unique_ptr<Dataset> all, bool train) {
//     TENON_ASSIGN_OR_RETURN(auto lengths,
//                            SplitLengths(all->size(), {0.9, 0.1}));
//     TENON_ASSIGN_OR_RETURN(auto parts, RandomSplit(all->size(), lengths, 7));
//     return SubsetDataset::Create(std::move(all), parts[train ? 0 : 1]);
//   }

#ifndef TENON_LOADER_DATASETS_SUBSET_DATASET_H_
#define TENON_LOADER_DATASETS_SUBSET_DATASET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {

// For a subset of one loader alone, a SubsetSampler does the same.
class SubsetDataset : public Dataset {
 public:
  // Sample i is sample indices[i] of `dataset`; indices may repeat.
  // Errors: kInvalidArgument for a null or iterable dataset; kOutOfRange for an
  // index that it does not have.
  static absl::StatusOr<std::unique_ptr<SubsetDataset>> Create(
      std::unique_ptr<Dataset> dataset, std::vector<int64_t> indices);

  int64_t size() const override { return std::ssize(indices_); }
  SampleSpec spec() const override { return dataset_->spec(); }
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override;
  absl::Status GetBatch(absl::Span<const int64_t> indices,
                        SampleBatch& samples) override;
  absl::Status Collate(Collation& batch) override {
    return dataset_->Collate(batch);
  }
  // If the dataset is.
  bool thread_safe() const override { return dataset_->thread_safe(); }

 private:
  SubsetDataset(std::unique_ptr<Dataset> dataset, std::vector<int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {}

  std::unique_ptr<Dataset> dataset_;
  std::vector<int64_t> indices_;
};

// The indices of a dataset of `size` samples in random order, in parts of
// `lengths`. The same for the same arguments, in all versions of Tenon.
// Errors: kInvalidArgument for a negative length, and if they do not sum up to
// `size`.
absl::StatusOr<std::vector<std::vector<int64_t>>> RandomSplit(
    int64_t size, const std::vector<int64_t>& lengths, uint64_t seed);

// Lengths in proportion to `fractions`, which sum up to 1: each rounded down,
// and the samples that remain one each to the first ones.
// Errors: kInvalidArgument for a negative size or fraction, and for another
// sum.
absl::StatusOr<std::vector<int64_t>> SplitLengths(
    int64_t size, const std::vector<double>& fractions);

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATASETS_SUBSET_DATASET_H_
