// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BucketSampler: batches of samples of similar length, which need little
// padding.

#ifndef TENON_LOADER_SAMPLING_BUCKET_SAMPLER_H_
#define TENON_LOADER_SAMPLING_BUCKET_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/sampling/sampler.h"

namespace tenon::loader {

struct BucketSamplerOptions {
  // Of each item of the dataset, in any unit.
  std::vector<int64_t> lengths;
  // The loader's batch size.
  int64_t batch_size = 1;
  // How many batches are sorted together. A larger window makes the samples of
  // a batch more alike, and the order less random.
  int64_t window = 64;
  uint64_t seed = 0;
};

// Sorts the samples of `window` batches of another order by length, cuts them
// into batches, and shuffles these batches; then those of the next window. A
// loader with the same batch_size gets these batches. The last batch of the
// epoch may be smaller, with samples of any length.
//
// Ranks: a DistributedSampler with the same batch_size returns whole batches.
// Cost: the first call in a window sorts it, in 24 bytes for each of its
//   samples.
// Stability: as RandomSampler.
class BucketSampler : public Sampler {
 public:
  // `order` is that of the whole job: a DistributedSampler is made of a
  // BucketSampler, not the other way round.
  // Errors: kInvalidArgument for a null `order`, a batch_size or window below
  // 1, a product of both above 2^63-1, and a negative length.
  static absl::StatusOr<std::unique_ptr<BucketSampler>> Create(
      BucketSamplerOptions options, std::unique_ptr<Sampler> order);

  int64_t size() const override { return order_->size(); }
  // An index without a length counts as length 0.
  void Fill(int64_t epoch, int64_t first, absl::Span<int64_t> indices) override;

 private:
  BucketSampler(BucketSamplerOptions options, std::unique_ptr<Sampler> order);

  // Makes sorted_ the order of the `window`th window of `epoch`.
  void Sort(int64_t epoch, int64_t window);
  int64_t LengthOf(int64_t index) const;

  BucketSamplerOptions options_;
  std::unique_ptr<Sampler> order_;
  int64_t window_size_;           // In samples.
  std::optional<int64_t> epoch_;  // Of what follows.
  int64_t window_ = -1;
  std::vector<int64_t> sorted_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_BUCKET_SAMPLER_H_
