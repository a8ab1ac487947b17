// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/iterable_dataset.h"

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tenon::loader {

absl::Status IterableDataset::Get(int64_t /*index*/, SampleRandom& /*random*/,
                                  Sample& /*sample*/) {
  return absl::UnimplementedError(
      "Dataset::Get(): an iterable dataset has no samples by index; call "
      "Open()");
}

absl::StatusOr<std::unique_ptr<SampleStream>> OpenShard(
    IterableDataset& dataset, int64_t shard, int64_t epoch) {
  auto stream = dataset.Open(shard, epoch);
  if (stream.ok() && *stream == nullptr) {
    return absl::InternalError("Open() returned a null pointer");
  }
  return stream;
}

}  // namespace tenon::loader
