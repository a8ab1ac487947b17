// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BrokenRecord and RepairedRecord: the subjects of the instruments' own tests.
// A record is two words that must always be equal, in memory shared by
// processes.

#ifndef TENON_SHM_TESTING_KILL_TWO_WORD_RECORD_H_
#define TENON_SHM_TESTING_KILL_TWO_WORD_RECORD_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

namespace tenon {

struct TwoWords {
  std::atomic<uint64_t> first{0};
  std::atomic<uint64_t> second{0};

  // kDataLoss with both words if they differ.
  absl::Status Check() const;
};

// Writes one word after the other: a writer that dies in between leaves them
// different, for ever.
class BrokenRecord {
 public:
  void Write(uint64_t value);
  absl::Status Check() const { return words_.Check(); }

  // The addresses of the store instructions, to identify the faulty one. 0
  // where the compiler's own stores are used (not x86-64).
  static uint64_t FirstStore();
  static uint64_t SecondStore();

 private:
  TwoWords words_;
};

// Writes both words to an unpublished copy, then publishes it with one store.
class RepairedRecord {
 public:
  void Write(uint64_t value);
  absl::Status Check() const { return words_[current_.load()].Check(); }

 private:
  TwoWords words_[2];
  std::atomic<uint32_t> current_{0};
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_TWO_WORD_RECORD_H_
