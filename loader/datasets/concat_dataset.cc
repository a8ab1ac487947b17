// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/datasets/concat_dataset.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
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
  int64_t end = 0;
  for (size_t i = 0; i < datasets.size(); ++i) {
    TENON_RETURN_IF_ERROR(CheckMapStyle(kCreate, i, *datasets[i]));
    const int64_t size = datasets[i]->size();
    if (size < 0 || size > std::numeric_limits<int64_t>::max() - end) {
      return absl::InvalidArgumentError(absl::StrCat(
          kCreate, ": dataset ", i, " has ", size, " samples after ", end,
          " of those before it; want a sum of 0 to 2^63-1"));
    }
    end += size;
    ends.push_back(end);
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

bool ConcatDataset::thread_safe() const {
  return std::all_of(
      datasets_.begin(), datasets_.end(),
      [](const auto& dataset) { return dataset->thread_safe(); });
}

}  // namespace tenon::loader
