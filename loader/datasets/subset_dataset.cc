// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/datasets/subset_dataset.h"

#include <algorithm>
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
#include "absl/types/span.h"
#include "tenon/loader/datasets/members.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {

absl::StatusOr<std::unique_ptr<SubsetDataset>> SubsetDataset::Create(
    std::unique_ptr<Dataset> dataset, std::vector<int64_t> indices) {
  constexpr char kCreate[] = "SubsetDataset::Create()";
  if (dataset == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(kCreate, ": the dataset is null"));
  }
  TENON_RETURN_IF_ERROR(CheckMapStyle(kCreate, 0, *dataset));
  for (const int64_t index : indices) {
    if (index >= 0 && index < dataset->size()) continue;
    return absl::OutOfRangeError(absl::StrCat(kCreate, ": index ", index,
                                              " is out of range [0, ",
                                              dataset->size(), ")"));
  }
  return absl::WrapUnique(
      new SubsetDataset(std::move(dataset), std::move(indices)));
}

absl::Status SubsetDataset::Get(int64_t index, SampleRandom& random,
                                Sample& sample) {
  return dataset_->Get(indices_[static_cast<size_t>(index)], random, sample);
}

absl::Status SubsetDataset::GetBatch(absl::Span<const int64_t> indices,
                                     SampleBatch& samples) {
  std::vector<int64_t> own;
  own.reserve(indices.size());
  for (const int64_t index : indices) {
    own.push_back(indices_[static_cast<size_t>(index)]);
  }
  return dataset_->GetBatch(own, samples);
}

absl::StatusOr<std::vector<std::vector<int64_t>>> RandomSplit(
    int64_t size, const std::vector<int64_t>& lengths, uint64_t seed) {
  int64_t left = size;
  for (const int64_t length : lengths) {
    if (length < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("RandomSplit(): length ", length, " is negative"));
    }
    left = length > left ? -1 : left - length;
    if (left < 0) break;
  }
  if (left != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "RandomSplit(): the lengths do not sum up to the size (", size, ")"));
  }
  TENON_ASSIGN_OR_RETURN(
      const auto order,
      RandomSampler::Create({.dataset_size = size, .seed = seed}));
  std::vector<std::vector<int64_t>> parts;
  int64_t next = 0;
  for (const int64_t length : lengths) {
    std::vector<int64_t>& part =
        parts.emplace_back(static_cast<size_t>(length));
    if (length > 0) order->Fill(0, next, absl::MakeSpan(part));
    next += length;
  }
  return parts;
}

absl::StatusOr<std::vector<int64_t>> SplitLengths(
    int64_t size, const std::vector<double>& fractions) {
  double sum = 0;
  for (const double fraction : fractions) {
    if (!(fraction >= 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("SplitLengths(): fraction ", fraction,
                       " is negative or not a number"));
    }
    sum += fraction;
  }
  if (size < 0 || !(std::abs(sum - 1) < 1e-6)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "SplitLengths(): size ", size, ", fractions that sum up to ", sum,
        "; want a size of at least 0 and a sum of 1"));
  }
  std::vector<int64_t> lengths;
  int64_t left = size;
  for (const double fraction : fractions) {
    const double length = std::floor(static_cast<double>(size) * fraction);
    // The double of a large size is above it: no cast of that.
    lengths.push_back(length < static_cast<double>(left)
                          ? static_cast<int64_t>(length)
                          : left);
    left -= lengths.back();
  }
  for (size_t i = 0; left > 0; i = (i + 1) % lengths.size(), --left) {
    ++lengths[i];
  }
  return lengths;
}

}  // namespace tenon::loader
