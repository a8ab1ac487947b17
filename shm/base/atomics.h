// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SharedWord, and atomics as a policy: how Tenon's lock-free code reads and
// writes the words that processes share.
//
//   template <AtomicsPolicy A>
//   bool TryPut(const SharedWord<uint64_t>& tail, SharedWord<uint64_t>& head) {
//     const uint64_t at = A::Load(head, std::memory_order_relaxed);
//     if (at - A::Load(tail, std::memory_order_acquire) == 64) return false;
//     // Write slot `at` here.
//     A::Store(head, at + 1, std::memory_order_release);
//     return true;
//   }
//
// StdAtomics is what runs: each operation is the one of std::atomic_ref, and
// becomes the same instructions. The tests run the same template over
// SimAtomics ("tenon/shm/testing/scheduler/sim_atomics.h"), which decides by a
// seed which thread runs next and how late a store is seen. Code that takes the
// policy therefore touches shared words through it only, and calls A::Pause()
// in every loop that waits for another thread.

#ifndef TENON_SHM_BASE_ATOMICS_H_
#define TENON_SHM_BASE_ATOMICS_H_

#include <atomic>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

template <typename T>
concept SharedWordValue =
    std::same_as<T, uint32_t> || std::same_as<T, uint64_t>;

// A word in memory that processes share: just the bytes of a T, so that zeroed
// pages are words of value 0, and the same in every process.
//
// Ownership: none; it lives in a mapping. It does not move and is not copied.
// Processes, threads: any number may use it at once, through an AtomicsPolicy.
// Trust: a loaded value is untrusted: check it before it is used.
// A word of memory that is mapped read-only is a `const SharedWord`, which can
// be loaded and nothing else. There is no word of 16 bytes: loading one is
// cmpxchg16b, which writes, and faults on a page that is mapped read-only.
template <SharedWordValue T>
class alignas(sizeof(T)) SharedWord {
 public:
  // Leaves the memory as it is: a word that a peer has written is not zeroed.
  SharedWord() = default;
  constexpr explicit SharedWord(T value) : value_(value) {}
  SharedWord(const SharedWord&) = delete;
  SharedWord& operator=(const SharedWord&) = delete;

  // For policies and futex calls. A non-atomic access is a race.
  T* address() { return &value_; }
  const T* address() const { return &value_; }

 private:
  T value_;
};

// The operations of lock-free code. The orders have their meaning of C++20, and
// an order that std::atomic forbids for an operation is forbidden here. Every
// operation is wait-free except Pause(), which may yield to other threads.
template <typename A, typename T>
concept AtomicsPolicyFor = requires(SharedWord<T>& word,
                                    const SharedWord<T>& read_only, T value,
                                    T& expected, std::memory_order order) {
  { A::Load(read_only, order) } -> std::same_as<T>;
  { A::Store(word, value, order) } -> std::same_as<void>;
  // Modulo 2^bits; they return the previous value.
  { A::FetchAdd(word, value, order) } -> std::same_as<T>;
  { A::FetchSub(word, value, order) } -> std::same_as<T>;
  // Strong: fails only if the word is not `expected`, which then becomes the
  // current value, loaded with `order` less its release part.
  { A::CompareExchange(word, expected, value, order) } -> std::same_as<bool>;
};

template <typename A>
concept AtomicsPolicy = AtomicsPolicyFor<A, uint32_t> &&
    AtomicsPolicyFor<A, uint64_t> && requires(std::memory_order order) {
  // Between all words. ThreadSanitizer does not understand fences: prefer an
  // order on the access itself where that suffices.
  { A::Fence(order) } -> std::same_as<void>;
  // Called in every iteration of a loop that waits for another thread or
  // process.
  { A::Pause() } -> std::same_as<void>;
};

// The processor's atomics. All inline, stateless.
struct StdAtomics {
  template <SharedWordValue T>
  static T Load(const SharedWord<T>& word, std::memory_order order) {
    // The loads of lock-free words write nothing, so the page may be read-only.
    return Ref<T>(*const_cast<T*>(word.address())).load(order);
  }

  template <SharedWordValue T>
  static void Store(SharedWord<T>& word, std::type_identity_t<T> value,
                    std::memory_order order) {
    Ref<T>(*word.address()).store(value, order);
  }

  template <SharedWordValue T>
  static T FetchAdd(SharedWord<T>& word, std::type_identity_t<T> value,
                    std::memory_order order) {
    return Ref<T>(*word.address()).fetch_add(value, order);
  }

  template <SharedWordValue T>
  static T FetchSub(SharedWord<T>& word, std::type_identity_t<T> value,
                    std::memory_order order) {
    return Ref<T>(*word.address()).fetch_sub(value, order);
  }

  template <SharedWordValue T>
  static bool CompareExchange(SharedWord<T>& word, T& expected,
                              std::type_identity_t<T> value,
                              std::memory_order order) {
    return Ref<T>(*word.address())
        .compare_exchange_strong(expected, value, order);
  }

  static void Fence(std::memory_order order) {
    std::atomic_thread_fence(order);
  }

  static void Pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

 private:
  template <typename T>
  using Ref = std::atomic_ref<T>;
};

static_assert(AtomicsPolicy<StdAtomics>);
static_assert(std::atomic_ref<uint32_t>::is_always_lock_free);
static_assert(std::atomic_ref<uint64_t>::is_always_lock_free);
static_assert(sizeof(SharedWord<uint64_t>) == 8);
static_assert(alignof(SharedWord<uint64_t>) >=
              std::atomic_ref<uint64_t>::required_alignment);
static_assert(sizeof(SharedWord<uint32_t>) == 4);
static_assert(std::is_standard_layout_v<SharedWord<uint64_t>>);
// Lets a mapping hold words that were never constructed.
static_assert(std::is_trivially_default_constructible_v<SharedWord<uint64_t>>);
static_assert(std::is_trivially_destructible_v<SharedWord<uint64_t>>);

}  // namespace tenon

#endif  // TENON_SHM_BASE_ATOMICS_H_
