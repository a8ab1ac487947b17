// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/epoch_digest.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/loader/data/batch.h"
#include "xxhash.h"

namespace tenon {

EpochDigest::EpochDigest()
    : all_(XXH3_createState()), one_(XXH3_createState()) {
  XXH3_64bits_reset(all_.get());
}

void EpochDigest::Add(const loader::Batch& batch) {
  XXH3_128bits_reset(one_.get());
  const int64_t header[] = {batch.number(), batch.size()};
  XXH3_128bits_update(one_.get(), header, sizeof(header));
  for (int f = 0; f < batch.num_fields(); ++f) {
    const absl::Span<const std::byte> bytes = batch.data<std::byte>(f).value();
    XXH3_128bits_update(one_.get(), bytes.data(), bytes.size());
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(one_.get());
  const BatchHash kept = {hash.low64, hash.high64};
  XXH3_64bits_update(all_.get(), &kept, sizeof(kept));
  batches_.push_back(kept);
}

std::string EpochDigest::Checksum() const {
  return absl::StrCat(
      absl::Hex(XXH3_64bits_digest(all_.get()), absl::kZeroPad16));
}

absl::Status EpochDigest::CompareWith(const EpochDigest& other) const {
  const auto [here, there] =
      std::mismatch(batches_.begin(), batches_.end(), other.batches_.begin(),
                    other.batches_.end());
  if (here == batches_.end() && there == other.batches_.end()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "batch ", here - batches_.begin(), " differs: ", batches_.size(), " and ",
      other.batches_.size(), " batches, checksums ", Checksum(), " and ",
      other.Checksum()));
}

}  // namespace tenon
