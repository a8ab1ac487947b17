// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/datasets/mix_dataset.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/datasets/members.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

struct Source {
  std::unique_ptr<SampleStream> stream;
  double weight = 0;
};

class MixStream : public SampleStream {
 public:
  explicit MixStream(std::vector<Source> sources)
      : sources_(std::move(sources)) {}

  absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
    while (!sources_.empty()) {
      const size_t drawn = Draw(random.Uniform());
      TENON_ASSIGN_OR_RETURN(const bool more,
                             sources_[drawn].stream->Next(random, sample));
      if (more) return true;
      sources_.erase(sources_.begin() + static_cast<ptrdiff_t>(drawn));
    }
    return false;
  }

 private:
  // `at` in [0, 1) of the sum of the weights.
  size_t Draw(double at) const {
    double sum = 0;
    for (const Source& source : sources_) sum += source.weight;
    double left = at * sum;
    for (size_t i = 0; i + 1 < sources_.size(); ++i) {
      if (left < sources_[i].weight) return i;
      left -= sources_[i].weight;
    }
    return sources_.size() - 1;
  }

  std::vector<Source> sources_;  // That have not ended.
};

}  // namespace

absl::StatusOr<std::unique_ptr<MixDataset>> MixDataset::Create(
    std::vector<std::unique_ptr<IterableDataset>> datasets,
    MixWeights weights) {
  constexpr char kCreate[] = "MixDataset::Create()";
  TENON_RETURN_IF_ERROR(CheckMembers(kCreate, datasets));
  TENON_RETURN_IF_ERROR(CheckSameFields(kCreate, datasets));
  TENON_RETURN_IF_ERROR(CheckSameShards(kCreate, datasets));
  if (weights == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(kCreate, ": there are no weights"));
  }
  return absl::WrapUnique(
      new MixDataset(std::move(datasets), std::move(weights)));
}

int64_t MixDataset::open_shards() const { return FewestOpenShards(datasets_); }

absl::StatusOr<std::unique_ptr<SampleStream>> MixDataset::Open(int64_t shard,
                                                               int64_t epoch) {
  constexpr char kOpen[] = "MixDataset::Open()";
  const std::vector<double> weights = weights_(epoch);
  if (weights.size() != datasets_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kOpen, ": there are ", weights.size(), " weights in epoch ", epoch,
        "; want one for each of ", datasets_.size(), " datasets"));
  }
  std::vector<Source> sources;
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || std::isinf(weights[i])) {
      return absl::InvalidArgumentError(absl::StrCat(
          kOpen, ": weight ", weights[i], " of dataset ", i, " in epoch ",
          epoch, " is negative, infinite or not a number; want >= 0"));
    }
    if (weights[i] == 0) continue;
    sum += weights[i];
    TENON_ASSIGN_OR_RETURN(auto stream, OpenShard(*datasets_[i], shard, epoch));
    sources.push_back({std::move(stream), weights[i]});
  }
  if (!(sum > 0) || std::isinf(sum)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kOpen, ": the weights of epoch ", epoch, " sum up to ",
                     sum, "; want a positive, finite sum"));
  }
  return std::make_unique<MixStream>(std::move(sources));
}

}  // namespace tenon::loader
