// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/copy_from_shared.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace tenon {
namespace {

struct Record {
  uint64_t first;
  uint32_t second;
  uint8_t third[4];
};

template <typename T>
concept Copyable = requires(const T* from) {
  CopyFromShared(from);
};

static_assert(Copyable<Record>);
static_assert(Copyable<uint64_t>);
static_assert(!Copyable<uint32_t>);     // Not a whole word.
static_assert(!Copyable<char[8]>);      // Not aligned.
static_assert(!Copyable<std::string>);  // Not bytes.

TEST(CopyFromSharedTest, CopiesEveryByte) {
  const Record record = {0x0123456789abcdef, 7, {1, 2, 3, 255}};
  const Record copy = CopyFromShared(&record);
  EXPECT_EQ(copy.first, record.first);
  EXPECT_EQ(copy.second, 7u);
  EXPECT_EQ(copy.third[0], 1);
  EXPECT_EQ(copy.third[3], 255);
}

// ThreadSanitizer would see a race if the words were not loaded atomically.
TEST(CopyFromSharedTest, WordsAreWholeWhileSomebodyWrites) {
  alignas(8) uint64_t words[2] = {0, 0};
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (uint64_t i = 0; !stop.load(); ++i) {
      const uint64_t value = i % 2 == 0 ? 0 : ~uint64_t{0};
      std::atomic_ref<uint64_t>(words[0]).store(value);
      std::atomic_ref<uint64_t>(words[1]).store(value);
    }
  });
  struct Pair {
    uint64_t words[2];
  };
  for (int i = 0; i < 100'000; ++i) {
    const Pair copy = CopyFromShared(reinterpret_cast<const Pair*>(words));
    for (const uint64_t word : copy.words) {
      ASSERT_TRUE(word == 0 || word == ~uint64_t{0}) << word;
    }
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace tenon
