// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/random_sampler.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/loader/sampling/keyed_permutation.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/sampler_stream.h"

namespace tenon::loader {

absl::StatusOr<std::unique_ptr<RandomSampler>> RandomSampler::Create(
    const RandomSamplerOptions& options) {
  const int64_t samples = options.samples.value_or(options.dataset_size);
  if (options.dataset_size < 0 || samples < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("RandomSampler::Create(): cannot draw ", samples,
                     " samples from a dataset of ", options.dataset_size,
                     " items; both must be at least 0"));
  }
  if (options.dataset_size == 0 && samples > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("RandomSampler::Create(): cannot draw ", samples,
                     " samples from an empty dataset"));
  }
  return absl::WrapUnique(new RandomSampler(options));
}

RandomSampler::RandomSampler(const RandomSamplerOptions& options)
    : dataset_size_(options.dataset_size),
      samples_(options.samples.value_or(options.dataset_size)),
      replacement_(options.replacement),
      seed_(options.seed) {}

RandomSampler::~RandomSampler() = default;

void RandomSampler::Fill(int64_t epoch, int64_t first,
                         absl::Span<int64_t> indices) {
  for (int64_t& index : indices) index = At(epoch, first++);
}

int64_t RandomSampler::At(int64_t epoch, int64_t position) {
  if (replacement_) {
    SampleRandom random =
        SamplerRandom(SamplerStream::kOrder, seed_, epoch, position);
    return static_cast<int64_t>(
        random.UniformInt(static_cast<uint64_t>(dataset_size_)));
  }
  const int64_t round = position / dataset_size_;
  if (epoch != epoch_ || round != round_) Permute(epoch, round);
  position -= round * dataset_size_;
  return permutation_ != nullptr ? permutation_->At(position)
                                 : table_[static_cast<size_t>(position)];
}

void RandomSampler::Permute(int64_t epoch, int64_t round) {
  if (dataset_size_ > kTableSize) {
    permutation_ = std::make_unique<KeyedPermutation>(
        dataset_size_,
        SamplerRandom(SamplerStream::kOrder, seed_, epoch, round));
  } else {
    Shuffle(epoch, round);
  }
  epoch_ = epoch;
  round_ = round;
}

void RandomSampler::Shuffle(int64_t epoch, int64_t round) {
  table_.resize(static_cast<size_t>(dataset_size_));
  std::iota(table_.begin(), table_.end(), 0);
  SampleRandom random =
      SamplerRandom(SamplerStream::kOrder, seed_, epoch, round);
  for (size_t left = table_.size(); left > 1; --left) {  // Fisher-Yates.
    std::swap(table_[left - 1], table_[random.UniformInt(left)]);
  }
}

}  // namespace tenon::loader
