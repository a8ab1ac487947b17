// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Mutator: slightly corrupted bytes, for the tests of parsers.

#ifndef TENON_SPAWN_TESTING_MUTATE_TESTING_H_
#define TENON_SPAWN_TESTING_MUTATE_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace tenon::spawn {

// The same seed gives the same mutations everywhere.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  // `bytes` after one to four changes: a changed byte, a word of an extreme
  // value, bytes removed, bytes inserted, the end cut off.
  std::string Mutate(std::string bytes);

 private:
  size_t Below(size_t bound) { return random_() % bound; }
  void MutateOnce(std::string& bytes);

  std::mt19937_64 random_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_TESTING_MUTATE_TESTING_H_
