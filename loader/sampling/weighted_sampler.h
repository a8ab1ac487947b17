// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WeightedSampler: draws items with given probabilities.

#ifndef TENON_LOADER_SAMPLING_WEIGHTED_SAMPLER_H_
#define TENON_LOADER_SAMPLING_WEIGHTED_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/sampling/sampler.h"

namespace tenon::loader {

struct WeightedSamplerOptions {
  // One for each item of the dataset; they need not sum up to 1. An item of
  // weight 0 is never drawn.
  std::vector<double> weights;
  // Samples in an epoch; unset: as many as there are weights.
  std::optional<int64_t> samples;
  // False: each draw is among the items that have not been drawn, in proportion
  // to their weights.
  bool replacement = true;
  uint64_t seed = 0;
};

// Cost: 8 bytes for each item. With replacement an index costs a binary
//   search. Without, the first call of an epoch draws a number for each item
//   and sorts the items with the smallest ones (Efraimidis and Spirakis:
//   "Weighted random sampling with a reservoir", 2006), in 16 more bytes for
//   each item.
// Stability: as RandomSampler; without replacement as far as std::log() of the
//   C library gives the same results.
class WeightedSampler : public Sampler {
 public:
  // Errors: kInvalidArgument for a weight that is negative, infinite or not a
  // number; for a negative number of samples; if the sum of the weights is
  // infinite, or 0 and there are samples; without replacement, for more samples
  // than items with a positive weight.
  static absl::StatusOr<std::unique_ptr<WeightedSampler>> Create(
      WeightedSamplerOptions options);

  int64_t size() const override { return samples_; }
  void Fill(int64_t epoch, int64_t first, absl::Span<int64_t> indices) override;

 private:
  struct Drawn {
    double arrival;
    int64_t index;
  };

  WeightedSampler(WeightedSamplerOptions options, int64_t samples);

  int64_t DrawOne(int64_t epoch, int64_t position) const;
  // Makes drawn_ the order of `epoch`.
  void DrawAll(int64_t epoch);

  int64_t samples_;
  bool replacement_;
  uint64_t seed_;
  // With replacement: sums of weights up to each item. Without: the weights.
  std::vector<double> weights_;
  int64_t last_ = 0;              // The last item whose weight is positive.
  std::optional<int64_t> epoch_;  // Of drawn_.
  std::vector<Drawn> drawn_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_WEIGHTED_SAMPLER_H_
