// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/tensor_view.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::internal_tensor_view {

absl::Status WrongRank(const TensorSpec& spec, int rank) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", spec.ToString(), " has ", spec.rank(),
                   " dimensions, not ", rank, ": Select() or Reshape() it"));
}

void EndOutOfRange(absl::Span<const int64_t> index,
                   absl::Span<const int64_t> extents) {
  Abort(absl::StrCat("TensorView: index [", absl::StrJoin(index, ", "),
                     "] is out of range in shape [",
                     absl::StrJoin(extents, ", "), "]"));
}

}  // namespace tenon::internal_tensor_view
