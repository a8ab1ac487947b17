// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SemaphoreCore: the words of a Semaphore and their operations.

#ifndef TENON_IPC_SYNC_INTERNAL_SEMAPHORE_CORE_H_
#define TENON_IPC_SYNC_INTERNAL_SEMAPHORE_CORE_H_

#include <atomic>
#include <cstdint>

#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// The memory orders and steps that are needed; wrong variants in tests weaken
// one.
struct SemaphoreProtocol {
  // A sleeper counts itself, then reads the units; a releaser adds units, then
  // reads the count. Both need a single total order, or each may miss the
  // other.
  static constexpr auto kCountSleeper = std::memory_order_seq_cst;
  static constexpr auto kRelease = std::memory_order_seq_cst;
  static constexpr auto kLoadSleepers = std::memory_order_seq_cst;
  static constexpr auto kAcquire = std::memory_order_acquire;
  static constexpr bool kTakeBySwap = true;   // Else by a load and a store.
  static constexpr bool kWakesAsMany = true;  // As released; else one.
};

// Any bytes are some state.
struct SemaphoreWords {
  SharedWord<uint32_t> value;
  // The number of sleepers, including those that died asleep: too high costs a
  // system call, too low would strand a sleeper.
  SharedWord<uint32_t> sleepers;
};

template <AtomicsPolicy A, typename Futex, typename P = SemaphoreProtocol>
struct SemaphoreCore {
  static bool TryAcquire(SemaphoreWords& words) {
    uint32_t value = A::Load(words.value, std::memory_order_relaxed);
    while (value != 0) {
      if constexpr (!P::kTakeBySwap) {
        A::Store(words.value, value - 1, P::kAcquire);
        return true;
      } else if (A::CompareExchange(words.value, value, value - 1,
                                    P::kAcquire)) {
        TENON_CRASH_POINT("semaphore.acquired");
        return true;
      }
    }
    return false;
  }

  // False if there was none until the deadline.
  static bool Acquire(SemaphoreWords& words, Deadline deadline) {
    if (TryAcquire(words)) return true;
    for (int i = Futex::SpinRounds(); i > 0; --i) {
      A::Pause();
      if (TryAcquire(words)) return true;
    }
    while (!deadline.has_passed()) {
      A::FetchAdd(words.sleepers, 1, P::kCountSleeper);
      TENON_CRASH_POINT("semaphore.counted");
      Futex::Wait(words.value, 0, deadline);
      TENON_CRASH_POINT("semaphore.slept");
      A::FetchSub(words.sleepers, 1, std::memory_order_relaxed);
      if (TryAcquire(words)) return true;
    }
    return TryAcquire(words);
  }

  // False, and nothing is done, if there would be more than `most`.
  static bool Release(SemaphoreWords& words, uint32_t count, uint32_t most) {
    uint32_t value = A::Load(words.value, std::memory_order_relaxed);
    do {
      if (value > most || count > most - value) return false;
    } while (
        !A::CompareExchange(words.value, value, value + count, P::kRelease));
    TENON_CRASH_POINT("semaphore.released");
    if (A::Load(words.sleepers, P::kLoadSleepers) == 0) return true;
    Futex::Wake(words.value, P::kWakesAsMany ? count : 1);
    TENON_CRASH_POINT("semaphore.woken");
    return true;
  }
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_INTERNAL_SEMAPHORE_CORE_H_
