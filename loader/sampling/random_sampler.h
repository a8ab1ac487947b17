// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RandomSampler: random order, with or without replacement.

#ifndef TENON_LOADER_SAMPLING_RANDOM_SAMPLER_H_
#define TENON_LOADER_SAMPLING_RANDOM_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/sampling/sampler.h"

namespace tenon::loader {

class KeyedPermutation;

struct RandomSamplerOptions {
  int64_t dataset_size = 0;
  // Samples in an epoch; unset: dataset_size.
  std::optional<int64_t> samples;
  // False: an epoch is a permutation of the dataset, or as many permutations
  // after one another as `samples` needs: no item is drawn for the n+1st time
  // before each has been drawn n times.
  bool replacement = false;
  uint64_t seed = 0;
};

// Cost: an index costs the same at any position; no permutation of a large
//   dataset is stored. Datasets of up to kTableSize items are shuffled at the
//   first call of an epoch (Fisher-Yates, each permutation equally likely) into
//   8 bytes per item; for larger ones an index is computed from its position
//   (keyed_permutation.h).
// Stability: the order of an epoch stays the same in all versions of Tenon.
class RandomSampler : public Sampler {
 public:
  static constexpr int64_t kTableSize = 65'536;

  // Errors: kInvalidArgument for a negative dataset_size or number of samples,
  // and for samples of an empty dataset.
  static absl::StatusOr<std::unique_ptr<RandomSampler>> Create(
      const RandomSamplerOptions& options);
  ~RandomSampler() override;

  int64_t size() const override { return samples_; }
  void Fill(int64_t epoch, int64_t first, absl::Span<int64_t> indices) override;

 private:
  explicit RandomSampler(const RandomSamplerOptions& options);

  int64_t At(int64_t epoch, int64_t position);
  // Makes permutation_ or table_ the `round`th one of `epoch`.
  void Permute(int64_t epoch, int64_t round);
  void Shuffle(int64_t epoch, int64_t round);

  int64_t dataset_size_;
  int64_t samples_;
  bool replacement_;
  uint64_t seed_;
  std::optional<int64_t> epoch_;  // Of what follows.
  int64_t round_ = -1;
  std::vector<int64_t> table_;
  std::unique_ptr<KeyedPermutation> permutation_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_RANDOM_SAMPLER_H_
