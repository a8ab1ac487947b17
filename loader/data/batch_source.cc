// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/loader/data/catching.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {

EpochPlan::Missing EpochPlan::MissingBatch(int64_t n) const {
  const auto after = std::upper_bound(
      missing.begin(), missing.end(), n,
      [](int64_t m, const Missing& range) { return m < range.batches_before; });
  Missing batch = *std::prev(after);
  const int64_t samples = missing_batches_from != nullptr ? 1 : batch_size;
  batch.first += (n - batch.batches_before) * samples;
  batch.end = std::min(batch.end, batch.first + samples);
  return batch;
}

absl::StatusOr<EpochPlan::Items> EpochPlan::FromMissing(int64_t number) const {
  const Missing batch = MissingBatch(number - first_batch);
  if (missing_batches_from != nullptr) {
    return FromBatchSampler(number, *missing_batches_from, batch.first);
  }
  Items items = {.indices = std::vector<int64_t>(
                     static_cast<size_t>(batch.end - batch.first)),
                 .first_position = missing_from->GlobalPosition(batch.first)};
  missing_from->Fill(epoch, batch.first, absl::MakeSpan(items.indices));
  return items;
}

absl::StatusOr<EpochPlan::Items> EpochPlan::FromSampler(int64_t number) const {
  const int64_t first = (number - first_batch - missing_batches) * batch_size;
  const int64_t count = std::min(batch_size, sampler->size() - first);
  Items items = {.indices = std::vector<int64_t>(static_cast<size_t>(count)),
                 .first_position = sampler->GlobalPosition(first)};
  sampler->Fill(epoch, first, absl::MakeSpan(items.indices));
  if (sampler->GlobalPosition(first + count - 1) ==
      items.first_position + count - 1) {
    return items;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("batch ", number, " of ", count,
                   " samples has samples of several batches of the job; give "
                   "the sampler the loader's batch_size (",
                   batch_size, ")"));
}

absl::StatusOr<EpochPlan::Items> EpochPlan::FromBatchSampler(int64_t number,
                                                             BatchSampler& from,
                                                             int64_t n) const {
  Items items = {.indices = {}, .first_position = from.FirstPosition(n)};
  from.Fill(epoch, n, items.indices);
  if (!items.indices.empty() && std::ssize(items.indices) <= batch_size) {
    return items;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "batch ", number, " of the batch sampler has ", items.indices.size(),
      " samples; want 1 to its max_batch_size() (", batch_size, ")"));
}

absl::StatusOr<EpochPlan::Items> EpochPlan::ItemsOf(int64_t number) const {
  absl::StatusOr<Items> items = Catching(
      absl::StrCat("batch ", number, ": the ",
                   batch_sampler != nullptr ? "batch sampler" : "sampler"),
      [&] {
        const int64_t n = number - first_batch - missing_batches;
        if (n < 0) return FromMissing(number);
        return batch_sampler != nullptr
                   ? FromBatchSampler(number, *batch_sampler, n)
                   : FromSampler(number);
      });
  TENON_RETURN_IF_ERROR(items.status());
  for (const int64_t index : items->indices) {
    if (index < 0 || index >= dataset_size) {
      return absl::OutOfRangeError(
          absl::StrCat("batch ", number, ": the sampler asks for item ", index,
                       " of a dataset of ", dataset_size));
    }
  }
  return items;
}

}  // namespace tenon::loader
