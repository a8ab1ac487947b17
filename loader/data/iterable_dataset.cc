// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/iterable_dataset.h"

#include <cstdint>

#include "absl/status/status.h"

namespace tenon::loader {

absl::Status IterableDataset::Get(int64_t /*index*/, SampleRandom& /*random*/,
                                  Sample& /*sample*/) {
  return absl::UnimplementedError(
      "Dataset::Get(): an iterable dataset has no samples by index; call "
      "Open()");
}

}  // namespace tenon::loader
