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

namespace tenon::loader {

absl::StatusOr<std::vector<int64_t>> EpochPlan::Indices(int64_t number) const {
  const int64_t first = number * batch_size;
  const int64_t count = std::min(batch_size, sampler->size() - first);
  if (sampler->GlobalPosition(first + count - 1) !=
      first_position(number) + count - 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "batch ", number, " of ", count,
        " samples has samples of several batches of the job; give the sampler "
        "the loader's batch_size (",
        batch_size, ")"));
  }
  std::vector<int64_t> indices(static_cast<size_t>(count));
  sampler->Fill(epoch, first, absl::MakeSpan(indices));
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
