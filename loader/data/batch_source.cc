// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch_source.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {

absl::StatusOr<std::vector<int64_t>> EpochPlan::Fill(int64_t number) const {
  std::vector<int64_t> indices;
  if (batch_sampler == nullptr) {
    const int64_t first = number * batch_size;
    indices.resize(
        static_cast<size_t>(std::min(batch_size, sampler->size() - first)));
    sampler->Fill(epoch, first, absl::MakeSpan(indices));
    return indices;
  }
  batch_sampler->Fill(epoch, number, indices);
  if (!indices.empty() && std::ssize(indices) <= batch_size) return indices;
  return absl::InvalidArgumentError(absl::StrCat(
      "batch ", number, " of the batch sampler has ", indices.size(),
      " samples; want 1 to the loader's batch_size (", batch_size, ")"));
}

absl::StatusOr<std::vector<int64_t>> EpochPlan::Indices(int64_t number) const {
  TENON_ASSIGN_OR_RETURN(std::vector<int64_t> indices, Fill(number));
  const int64_t last = std::ssize(indices) - 1;
  if (Position(number, last) != first_position(number) + last) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch ", number, " of ", indices.size(),
        " samples has samples of several batches of the job; give the sampler "
        "the loader's batch_size (",
        batch_size, ")"));
  }
  for (const int64_t index : indices) {
    if (index < 0 || index >= dataset_size) {
      return absl::OutOfRangeError(absl::StrCat("the sampler asks for item ",
                                                index, " of a dataset of ",
                                                dataset_size));
    }
  }
  return indices;
}

}  // namespace tenon::loader
