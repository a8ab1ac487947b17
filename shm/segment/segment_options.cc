// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/segment_options.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon {

absl::StatusOr<SharingStrategy> StrategyOf(const SegmentOptions& options) {
  constexpr auto kFileSystem = SharingStrategy::kFileSystem;
  if (options.name.empty()) {
    return options.strategy.value_or(GetSharingStrategy());
  }
  TENON_RETURN_IF_ERROR(CheckChosenShmName(options.name));
  if (options.strategy.value_or(kFileSystem) == kFileSystem) return kFileSystem;
  return absl::InvalidArgumentError(absl::StrCat(
      "SegmentOptions: name '", options.name,
      "' together with the file_descriptor strategy, whose segments have no "
      "names; leave `strategy` unset"));
}

}  // namespace tenon
