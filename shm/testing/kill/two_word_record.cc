// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/two_word_record.h"

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/crash_point.h"

#if defined(__x86_64__)
extern "C" const char tenon_broken_record_first_store[];
extern "C" const char tenon_broken_record_second_store[];
#endif

namespace tenon {
namespace {

// One instruction each, whatever the compiler's options, and with a label.
#if defined(__x86_64__)
#define TENON_NAMED_STORE_(name, word, value)           \
  asm volatile(".globl " name "\n" name ": movq %1, %0" \
               : "=m"(word)                             \
               : "r"(value)                             \
               : "memory")
#else
#define TENON_NAMED_STORE_(name, word, value) (word).store(value)
#endif

}  // namespace

absl::Status TwoWords::Check() const {
  const uint64_t a = first.load();
  const uint64_t b = second.load();
  if (a == b) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the words are ", a, " and ", b));
}

// A second copy of the labels would fail to assemble: not inlined.
[[gnu::noinline]] void BrokenRecord::Write(uint64_t value) {
  TENON_CRASH_POINT("broken_record.begun");
  TENON_NAMED_STORE_("tenon_broken_record_first_store", words_.first, value);
  TENON_CRASH_POINT("broken_record.first_stored");
  TENON_NAMED_STORE_("tenon_broken_record_second_store", words_.second, value);
  TENON_CRASH_POINT("broken_record.second_stored");
}

uint64_t BrokenRecord::FirstStore() {
#if defined(__x86_64__)
  return reinterpret_cast<uint64_t>(tenon_broken_record_first_store);
#else
  return 0;
#endif
}

uint64_t BrokenRecord::SecondStore() {
#if defined(__x86_64__)
  return reinterpret_cast<uint64_t>(tenon_broken_record_second_store);
#else
  return 0;
#endif
}

void RepairedRecord::Write(uint64_t value) {
  const uint32_t next = 1 - current_.load(std::memory_order_relaxed);
  TENON_CRASH_POINT("repaired_record.begun");
  words_[next].first.store(value, std::memory_order_relaxed);
  TENON_CRASH_POINT("repaired_record.first_stored");
  words_[next].second.store(value, std::memory_order_relaxed);
  TENON_CRASH_POINT("repaired_record.second_stored");
  current_.store(next, std::memory_order_release);
  TENON_CRASH_POINT("repaired_record.published");
}

}  // namespace tenon
