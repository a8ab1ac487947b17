// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/dataset.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace tenon::loader {

absl::Status Dataset::GetBatch(absl::Span<const int64_t> /*indices*/,
                               SampleBatch& /*samples*/) {
  // Without a message: it is made for each batch.
  return absl::Status(absl::StatusCode::kUnimplemented, "");
}

absl::Status Dataset::Collate(Collation& /*batch*/) {
  return absl::UnimplementedError(
      "the dataset has fields of SampleSpec::AddInput() or AddOutput(), and "
      "does not override Collate()");
}

}  // namespace tenon::loader
