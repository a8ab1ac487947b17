// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// EpochDigest: a checksum over the batches of an epoch; and whether two runs
// gave the same.

#ifndef TENON_EXAMPLES_PHOTOS_EPOCH_DIGEST_H_
#define TENON_EXAMPLES_PHOTOS_EPOCH_DIGEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tenon/loader/data/batch.h"
#include "xxhash.h"

namespace tenon {

// Hashes with XXH3: 64 bits over everything, and 128 bits for each batch.
// Movable; thread-compatible.
class EpochDigest {
 public:
  EpochDigest();

  // Adds the next batch: its number, its size and every byte of its fields.
  void Add(const loader::Batch& batch);

  // 16 hex digits over all batches so far, in order.
  std::string Checksum() const;

  // OK if both have seen the same batches. Errors: kDataLoss naming the first
  // batch that differs.
  absl::Status CompareWith(const EpochDigest& other) const;

 private:
  struct BatchHash {
    uint64_t low, high;
    friend bool operator==(const BatchHash&, const BatchHash&) = default;
  };

  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  using State = std::unique_ptr<XXH3_state_t, FreeState>;

  State all_;
  State one_;  // Kept for its memory.
  std::vector<BatchHash> batches_;
};

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_EPOCH_DIGEST_H_
