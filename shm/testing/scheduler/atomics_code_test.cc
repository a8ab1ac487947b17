// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StdAtomics costs nothing: every operation on a SharedWord, with every order,
// compiles to the machine code of the same operation on a std::atomic. Each is
// compiled twice, into two sections of this program, which are compared.

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/base/config.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"

#ifdef __clang__
#define TENON_CODE_IN(name) __attribute__((section(name), used, noinline))
#else
// no_icf: otherwise gcc makes one of two equal functions a jump to the other.
#define TENON_CODE_IN(name) \
  __attribute__((section(name), used, noinline, no_icf))
#endif

namespace tenon {
namespace {

using Expected32 = uint32_t;
using Expected64 = uint64_t;

// `policy` and `standard` are expressions of `word`, `value` and `expected`.
#define TENON_TWICE(name, bits, result, policy, standard)                  \
  TENON_CODE_IN("tenon_policy")                                            \
  result Policy##name##bits(SharedWord<uint##bits##_t>& word,              \
                            [[maybe_unused]] uint##bits##_t value,         \
                            [[maybe_unused]] Expected##bits& expected) {   \
    return policy;                                                         \
  }                                                                        \
  TENON_CODE_IN("tenon_standard")                                          \
  result Standard##name##bits(std::atomic<uint##bits##_t>& word,           \
                              [[maybe_unused]] uint##bits##_t value,       \
                              [[maybe_unused]] Expected##bits& expected) { \
    return standard;                                                       \
  }

#define TENON_LOAD(bits, order)                                  \
  TENON_TWICE(Load_##order, bits, uint##bits##_t,                \
              StdAtomics::Load(word, std::memory_order_##order), \
              word.load(std::memory_order_##order))
#define TENON_STORE(bits, order)                                         \
  TENON_TWICE(Store_##order, bits, void,                                 \
              StdAtomics::Store(word, value, std::memory_order_##order), \
              word.store(value, std::memory_order_##order))
#define TENON_RMW(bits, order)                                              \
  TENON_TWICE(FetchAdd_##order, bits, uint##bits##_t,                       \
              StdAtomics::FetchAdd(word, value, std::memory_order_##order), \
              word.fetch_add(value, std::memory_order_##order))             \
  TENON_TWICE(FetchSub_##order, bits, uint##bits##_t,                       \
              StdAtomics::FetchSub(word, value, std::memory_order_##order), \
              word.fetch_sub(value, std::memory_order_##order))             \
  TENON_TWICE(CompareExchange_##order, bits, bool,                          \
              StdAtomics::CompareExchange(word, expected, value,            \
                                          std::memory_order_##order),       \
              word.compare_exchange_strong(expected, value,                 \
                                           std::memory_order_##order))
#define TENON_FENCE(order)                                        \
  TENON_TWICE(                                                    \
      Fence_##order, 64, void,                                    \
      ((void)word, StdAtomics::Fence(std::memory_order_##order)), \
      ((void)word, std::atomic_thread_fence(std::memory_order_##order)))

#define TENON_ALL(bits)      \
  TENON_LOAD(bits, relaxed)  \
  TENON_LOAD(bits, acquire)  \
  TENON_LOAD(bits, seq_cst)  \
  TENON_STORE(bits, relaxed) \
  TENON_STORE(bits, release) \
  TENON_STORE(bits, seq_cst) \
  TENON_RMW(bits, relaxed)   \
  TENON_RMW(bits, acquire)   \
  TENON_RMW(bits, release)   \
  TENON_RMW(bits, acq_rel)   \
  TENON_RMW(bits, seq_cst)

TENON_ALL(32)
TENON_ALL(64)
#ifndef ABSL_HAVE_THREAD_SANITIZER  // Does not support fences, and warns.
TENON_FENCE(acquire)
TENON_FENCE(release)
TENON_FENCE(acq_rel)
TENON_FENCE(seq_cst)
#endif

// The linker gives the bounds of a section whose name is an identifier.
extern "C" {
extern const char __start_tenon_policy[];
extern const char __stop_tenon_policy[];
extern const char __start_tenon_standard[];
extern const char __stop_tenon_standard[];
}

TEST(AtomicsCodeTest, IsThatOfStdAtomic) {
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER)
  GTEST_SKIP() << "sanitizers put the place of the code into it";
#endif
  const std::string policy(__start_tenon_policy, __stop_tenon_policy);
  const std::string standard(__start_tenon_standard, __stop_tenon_standard);
  EXPECT_GT(policy.size(), 600u);  // 42 functions and 4 fences.
  EXPECT_TRUE(policy == standard)
      << policy.size() << " and " << standard.size() << " bytes of code";
}

}  // namespace
}  // namespace tenon
