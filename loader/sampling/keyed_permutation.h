// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KeyedPermutation: a pseudorandom permutation of [0, size), one value at a
// time and without a table. Not for users.
//
// Construction: the generalized Feistel cipher of Black and Rogaway ("Ciphers
// with Arbitrary Finite Domains", CT-RSA 2002). A position is a pair of Z_a x
// Z_b with a * b >= size, both about sqrt(size); a round adds a function of one
// half to the other one, modulo a or b. Pairs beyond `size` are enciphered
// again ("cycle walking"), which is rare: a * b - size < b. 8 rounds, as many
// as FF3-1 has (NIST SP 800-38G). The round function is the folded 64 x 64 bit
// multiplication of wyhash, with 128 random bits of key for each round. It is
// for statistics, not against an adversary.
//
// The permutations of a small set would not be equally likely: an even number
// of additions reaches even permutations only, and few keys many of them twice.
// From some hundred items on no test here tells them from random ones.

#ifndef TENON_LOADER_SAMPLING_KEYED_PERMUTATION_H_
#define TENON_LOADER_SAMPLING_KEYED_PERMUTATION_H_

#include <array>
#include <cstdint>

#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {

// A value of 152 bytes. Immutable, so thread-safe.
class KeyedPermutation {
 public:
  // Of [0, size), `size` >= 1, chosen by numbers that `random` draws.
  KeyedPermutation(int64_t size, SampleRandom random);

  // The value at `position`, in [0, size).
  int64_t At(int64_t position) const;

 private:
  static constexpr int kRounds = 8;
  struct RoundKey {
    uint64_t mask;
    uint64_t factor;  // Odd.
  };

  uint64_t Encipher(uint64_t value) const;

  uint64_t size_;
  uint64_t a_;
  uint64_t b_;
  std::array<RoundKey, kRounds> keys_;
};
static_assert(sizeof(KeyedPermutation) == 152);

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_KEYED_PERMUTATION_H_
