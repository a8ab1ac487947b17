// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/replay_source.h"

#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::loader {

void ReplaySource::StartEpoch(const EpochPlan& plan) {
  plan_ = plan;
  returned_ = 0;
  if (!is_complete_) source_->StartEpoch(plan);
}

absl::StatusOr<std::optional<BatchResult>> ReplaySource::Next(
    Deadline deadline) {
  if (!is_complete_) {
    auto result = NextOfSource(deadline);
    // An epoch without a good batch has nothing to return again.
    if (!result.ok() || result->has_value() || kept_.empty()) return result;
    is_complete_ = true;
    return result;
  }
  const size_t of_epoch =
      plan_.shards > 0 ? kept_.size() : static_cast<size_t>(plan_.batches);
  if (returned_ >= of_epoch || cancellation_->is_draining()) {
    return std::nullopt;
  }
  return BatchResult{kept_[returned_++ % kept_.size()]};
}

absl::StatusOr<std::optional<BatchResult>> ReplaySource::NextOfSource(
    Deadline deadline) {
  auto result = source_->Next(deadline);
  if (!result.ok() || !result->has_value()) return result;
  ++returned_;
  if ((*result)->batch.ok()) {
    kept_.push_back(*(*result)->batch);
    is_complete_ = kept_.size() == batches_;
  }
  return result;
}

}  // namespace tenon::loader
