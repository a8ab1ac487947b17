// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The requirements of "tenon/shm/base/atomics.h" on a policy, for both
// policies.

#include "tenon/shm/base/atomics.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>

#include "absl/base/config.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"

namespace tenon {
namespace {

// A word that is mapped read-only can only be loaded; no word has 16 bytes.
template <typename A, typename Word>
concept Stores = requires(Word& word) {
  A::Store(word, 1, std::memory_order_release);
};
template <typename A, typename Word>
concept Adds = requires(Word& word) {
  A::FetchAdd(word, 1, std::memory_order_release);
};
template <typename A, typename Word>
concept Swaps = requires(Word& word, uint64_t& expected) {
  A::CompareExchange(word, expected, 1, std::memory_order_release);
};
template <typename T>
concept HasWord = requires {
  typename SharedWord<T>;
};
using Word = SharedWord<uint64_t>;
static_assert(Stores<StdAtomics, Word> && Stores<SimAtomics, Word>);
static_assert(Adds<StdAtomics, Word> && Adds<SimAtomics, Word>);
static_assert(Swaps<StdAtomics, Word> && Swaps<SimAtomics, Word>);
static_assert(!Stores<StdAtomics, const Word> &&
              !Stores<SimAtomics, const Word>);
static_assert(!Adds<StdAtomics, const Word> && !Adds<SimAtomics, const Word>);
static_assert(!Swaps<StdAtomics, const Word> && !Swaps<SimAtomics, const Word>);
static_assert(HasWord<uint32_t> && !HasWord<unsigned __int128> &&
              !HasWord<uint16_t> && !HasWord<int64_t>);
static_assert(!std::copyable<Word>);

// Runs `body` in a context where the policy's operations are allowed.
template <typename A>
void Within(void (*body)()) {
  if constexpr (std::same_as<A, SimAtomics>) {
    const ExploreResult result =
        Explore({.schedules = 10}, [&](Schedule&) { body(); });
    EXPECT_TRUE(result.ok) << result.report;
  } else {
    body();
  }
}

template <typename A>
class AtomicsPolicyTest : public testing::Test {};

using Policies = testing::Types<StdAtomics, SimAtomics>;
TYPED_TEST_SUITE(AtomicsPolicyTest, Policies);

template <typename A, typename T>
void DoEverything() {
  SharedWord<T> word(7);
  EXPECT_EQ(A::Load(word, std::memory_order_relaxed), 7u);
  A::Store(word, 1, std::memory_order_seq_cst);
  EXPECT_EQ(A::Load(word, std::memory_order_seq_cst), 1u);
  EXPECT_EQ(A::FetchAdd(word, 4, std::memory_order_acq_rel), 1u);
  EXPECT_EQ(A::FetchSub(word, 6, std::memory_order_release), 5u);
  EXPECT_EQ(A::Load(word, std::memory_order_acquire), static_cast<T>(-1));
  EXPECT_EQ(A::FetchAdd(word, 3, std::memory_order_relaxed),
            static_cast<T>(-1));
  T expected = 3;
  EXPECT_FALSE(
      A::CompareExchange(word, expected, 9, std::memory_order_acq_rel));
  EXPECT_EQ(expected, 2u);
  EXPECT_TRUE(A::CompareExchange(word, expected, 9, std::memory_order_seq_cst));
  EXPECT_EQ(expected, 2u);
  EXPECT_EQ(A::Load(word, std::memory_order_relaxed), 9u);
#ifndef ABSL_HAVE_THREAD_SANITIZER  // gcc warns of fences there.
  A::Fence(std::memory_order_seq_cst);
#endif
  A::Pause();
}

TYPED_TEST(AtomicsPolicyTest, DoesWhatItSays) {
  Within<TypeParam>(&DoEverything<TypeParam, uint32_t>);
  Within<TypeParam>(&DoEverything<TypeParam, uint64_t>);
}

// Zeroed pages are words of value 0; a page mapped read-only can be loaded.
template <typename A>
void LoadReadOnly() {
  const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* page =
      mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  const auto* words = static_cast<const Word*>(page);
  for (const auto order : {std::memory_order_relaxed, std::memory_order_acquire,
                           std::memory_order_seq_cst}) {
    EXPECT_EQ(A::Load(words[3], order), 0u);
  }
  const auto* narrow = static_cast<const SharedWord<uint32_t>*>(page);
  EXPECT_EQ(A::Load(narrow[1], std::memory_order_seq_cst), 0u);
  EXPECT_EQ(munmap(page, bytes), 0);
}

TYPED_TEST(AtomicsPolicyTest, LoadsFromAPageThatIsMappedReadOnly) {
  Within<TypeParam>(&LoadReadOnly<TypeParam>);
}

// A peer's words exist before this process constructs a view of them.
TEST(SharedWordTest, PlacingAWordInMemoryChangesNothing) {
  alignas(8) uint64_t memory = 42;
  auto* word = new (&memory) Word;
  EXPECT_EQ(StdAtomics::Load(*word, std::memory_order_relaxed), 42u);
  EXPECT_EQ(word->address(), &memory);
}

}  // namespace
}  // namespace tenon
