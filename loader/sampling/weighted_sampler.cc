// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/weighted_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/sampler_stream.h"

namespace tenon::loader {
namespace {

absl::Status Invalid(absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("WeightedSampler::Create(): ", problem));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightedSampler>> WeightedSampler::Create(
    WeightedSamplerOptions options) {
  const auto items = static_cast<int64_t>(options.weights.size());
  const int64_t samples = options.samples.value_or(items);
  double sum = 0;
  int64_t positive = 0;
  for (int64_t i = 0; i < items; ++i) {
    const double weight = options.weights[static_cast<size_t>(i)];
    if (!(weight >= 0) || std::isinf(weight)) {
      return Invalid(absl::StrCat("weight ", i, " is ", weight,
                                  "; weights are finite and at least 0"));
    }
    sum += weight;
    positive += weight > 0 ? 1 : 0;
  }
  if (samples < 0) {
    return Invalid(absl::StrCat("cannot draw ", samples, " samples"));
  }
  if (std::isinf(sum)) return Invalid("the weights sum up to infinity");
  if (samples > 0 && positive == 0) {
    return Invalid(absl::StrCat("cannot draw ", samples, " samples: none of ",
                                items, " weights is positive"));
  }
  if (!options.replacement && samples > positive) {
    return Invalid(
        absl::StrCat("cannot draw ", samples,
                     " samples without replacement: ", positive, " of ", items,
                     " weights are positive; set `samples` or `replacement`"));
  }
  return absl::WrapUnique(new WeightedSampler(std::move(options), samples));
}

WeightedSampler::WeightedSampler(WeightedSamplerOptions options,
                                 int64_t samples)
    : samples_(samples),
      replacement_(options.replacement),
      seed_(options.seed),
      weights_(std::move(options.weights)) {
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0) last_ = static_cast<int64_t>(i);
  }
  if (replacement_) {
    std::partial_sum(weights_.begin(), weights_.end(), weights_.begin());
  }
}

void WeightedSampler::Fill(int64_t epoch, int64_t first,
                           absl::Span<int64_t> indices) {
  if (replacement_) {
    for (int64_t& index : indices) index = DrawOne(epoch, first++);
    return;
  }
  if (epoch != epoch_) DrawAll(epoch);
  for (int64_t& index : indices) {
    index = drawn_[static_cast<size_t>(first++)].index;
  }
}

int64_t WeightedSampler::DrawOne(int64_t epoch, int64_t position) const {
  SampleRandom random =
      SamplerRandom(SamplerStream::kWeighted, seed_, epoch, position);
  const double drawn = random.Uniform() * weights_.back();
  // The first sum beyond `drawn`: never that of an item of weight 0, which
  // equals the one before. The product may round up to the last sum.
  const auto found = std::upper_bound(weights_.begin(), weights_.end(), drawn);
  return std::min<int64_t>(found - weights_.begin(), last_);
}

void WeightedSampler::DrawAll(int64_t epoch) {
  drawn_.clear();
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] == 0) continue;
    const auto index = static_cast<int64_t>(i);
    SampleRandom random =
        SamplerRandom(SamplerStream::kWeighted, seed_, epoch, index);
    // Arrivals of Poisson processes with the weights as rates: the next one to
    // arrive is among those left in proportion to their weights.
    drawn_.push_back({-std::log1p(-random.Uniform()) / weights_[i], index});
  }
  std::partial_sort(drawn_.begin(), drawn_.begin() + samples_, drawn_.end(),
                    [](const Drawn& x, const Drawn& y) {
                      return x.arrival != y.arrival ? x.arrival < y.arrival
                                                    : x.index < y.index;
                    });
  epoch_ = epoch;
}

}  // namespace tenon::loader
