// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WordTable: maps addresses to words, for the words of one schedule.

#ifndef TENON_SHM_TESTING_SCHEDULER_WORD_TABLE_H_
#define TENON_SHM_TESTING_SCHEDULER_WORD_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tenon {

// A hash table that is cleared in constant time. Thread-compatible.
class WordTable {
 public:
  // The maximum number of words, a quarter of its slots.
  static constexpr int kMaxWords = 256;

  // Forgets all words.
  void Reset() { ++round_; }

  // The word at that address; -1, to be replaced by the caller, if absent.
  int& Find(const void* address) {
    const uint64_t hash =
        (reinterpret_cast<uintptr_t>(address) >> 2) * 0x9e3779b97f4a7c15;
    for (size_t i = (hash >> 32) % kPlaces;; i = (i + 1) % kPlaces) {
      Place& place = places_[i];
      if (place.round != round_) place = {address, round_, -1};
      if (place.address == address) return place.word;
    }
  }

 private:
  static constexpr size_t kPlaces = 4 * kMaxWords;

  struct Place {
    const void* address = nullptr;
    uint64_t round = 0;  // A slot of an earlier round is free.
    int word = -1;
  };

  uint64_t round_ = 1;
  std::vector<Place> places_{kPlaces};
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_WORD_TABLE_H_
