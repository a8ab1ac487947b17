// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/datasets/concat_dataset.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/datasets/members.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

constexpr char kCreate[] = "ConcatDataset::Create()";

}  // namespace

absl::StatusOr<std::unique_ptr<ConcatDataset>> ConcatDataset::Create(
    std::vector<std::unique_ptr<Dataset>> datasets) {
  TENON_RETURN_IF_ERROR(CheckMembers(kCreate, datasets));
  TENON_RETURN_IF_ERROR(CheckSameFields(kCreate, datasets));
  std::vector<int64_t> ends;
  for (const std::unique_ptr<Dataset>& dataset : datasets) {
    TENON_RETURN_IF_ERROR(CheckMapStyle(kCreate, *dataset));
    ends.push_back((ends.empty() ? 0 : ends.back()) + dataset->size());
  }
  return absl::WrapUnique(
      new ConcatDataset(std::move(datasets), std::move(ends)));
}

absl::Status ConcatDataset::Get(int64_t index, SampleRandom& random,
                                Sample& sample) {
  const auto member = static_cast<size_t>(
      std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  const int64_t begin = member == 0 ? 0 : ends_[member - 1];
  return datasets_[member]->Get(index - begin, random, sample);
}

}  // namespace tenon::loader
