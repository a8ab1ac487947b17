// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/random_sampler.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {
namespace {

// Positions of samples are not negative, so these streams are the sampler's
// own.
constexpr int64_t kSamplerStream = std::numeric_limits<int64_t>::min();

}  // namespace

absl::StatusOr<std::unique_ptr<RandomSampler>> RandomSampler::Create(
    const RandomSamplerOptions& options) {
  const int64_t samples = options.samples.value_or(options.dataset_size);
  if (options.dataset_size < 0 || samples < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot draw ", samples, " samples from a dataset of ",
                     options.dataset_size, " items"));
  }
  if (options.dataset_size == 0 && samples > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot draw ", samples, " samples from an empty dataset"));
  }
  return absl::WrapUnique(new RandomSampler(options));
}

RandomSampler::RandomSampler(const RandomSamplerOptions& options)
    : dataset_size_(options.dataset_size),
      samples_(options.samples.value_or(options.dataset_size)),
      replacement_(options.replacement),
      seed_(options.seed) {}

void RandomSampler::Fill(int64_t epoch, int64_t first,
                         absl::Span<int64_t> indices) {
  for (int64_t& index : indices) index = At(epoch, first++);
}

int64_t RandomSampler::At(int64_t epoch, int64_t position) {
  if (replacement_) {
    SampleRandom random(seed_, epoch, kSamplerStream + position);
    return static_cast<int64_t>(
        random.UniformInt(static_cast<uint64_t>(dataset_size_)));
  }
  const int64_t round = position / dataset_size_;
  if (epoch != epoch_ || round != round_) Permute(epoch, round);
  return permutation_[static_cast<size_t>(position % dataset_size_)];
}

void RandomSampler::Permute(int64_t epoch, int64_t round) {
  permutation_.resize(static_cast<size_t>(dataset_size_));
  std::iota(permutation_.begin(), permutation_.end(), 0);
  SampleRandom random(seed_, epoch, kSamplerStream + round);
  for (size_t left = permutation_.size(); left > 1; --left) {  // Fisher-Yates.
    std::swap(permutation_[left - 1], permutation_[random.UniformInt(left)]);
  }
  epoch_ = epoch;
  round_ = round;
}

}  // namespace tenon::loader
