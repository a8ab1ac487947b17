// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/keyed_permutation.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/numeric/int128.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {
namespace {

absl::uint128 Product(uint64_t x, uint64_t y) { return absl::uint128(x) * y; }

// The smallest integer whose square is at least `value` < 2^63.
uint64_t SquareRootUp(uint64_t value) {
  // std::sqrt() is exact to one ulp: the loops correct by a few at most.
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(value)));
  while (root > 0 && root * root >= value) --root;
  while (root * root < value) ++root;
  return root;
}

}  // namespace

KeyedPermutation::KeyedPermutation(int64_t size, SampleRandom random)
    : size_(static_cast<uint64_t>(size)),
      a_(std::max(SquareRootUp(size_), uint64_t{1})),
      b_((size_ + a_ - 1) / a_),
      keys_{} {
  for (RoundKey& key : keys_) {
    key.mask = random.Bits64();
    key.factor = random.Bits64() | 1;
  }
}

int64_t KeyedPermutation::At(int64_t position) const {
  // A permutation of Z_a x Z_b, walked along its cycle until it is back in
  // [0, size): it ends, as `position` itself is on the cycle.
  auto value = static_cast<uint64_t>(position);
  do {
    value = Encipher(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

uint64_t KeyedPermutation::Encipher(uint64_t value) const {
  // A number in [0, bound) that depends on all bits of `half`.
  const auto function = [](const RoundKey& key, uint64_t half, uint64_t bound) {
    const absl::uint128 product = Product(half ^ key.mask, key.factor);
    const uint64_t folded =
        absl::Uint128Low64(product) ^ absl::Uint128High64(product);
    return absl::Uint128High64(Product(folded, bound));
  };
  uint64_t left = value / b_;
  uint64_t right = value % b_;
  for (int round = 0; round < kRounds; round += 2) {
    left += function(keys_[round], right, a_);
    if (left >= a_) left -= a_;
    right += function(keys_[round + 1], left, b_);
    if (right >= b_) right -= b_;
  }
  return left * b_ + right;
}

}  // namespace tenon::loader
