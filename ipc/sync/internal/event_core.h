// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// EventCore: the words of an Event and their operations.

#ifndef TENON_IPC_SYNC_INTERNAL_EVENT_CORE_H_
#define TENON_IPC_SYNC_INTERNAL_EVENT_CORE_H_

#include <atomic>
#include <cstdint>

#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/locks/futex.h"

namespace tenon {

// The memory orders that each step needs; wrong variants in tests weaken one.
struct EventProtocol {
  // A sleeper counts itself, then reads the state; a setter stores the state,
  // then reads the count. Both need a single total order, or each may miss the
  // other.
  static constexpr auto kCountSleeper = std::memory_order_seq_cst;
  static constexpr auto kSet = std::memory_order_seq_cst;
  static constexpr auto kLoadSleepers = std::memory_order_seq_cst;
  static constexpr auto kSeeSet = std::memory_order_acquire;
  static constexpr bool kCountsSets = true;
  static constexpr bool kWakesAll = true;
};

// Zeroed: not set. Any bytes are some state.
struct EventWords {
  // Bit 0: whether it is set. Above: how often it has been set, so that a
  // waiter notices a set that is cleared at once.
  SharedWord<uint32_t> state;
  // The number of sleepers, including those that died asleep: too high costs a
  // system call, too low would strand a sleeper.
  SharedWord<uint32_t> sleepers;
};

template <AtomicsPolicy A, typename Futex, typename P = EventProtocol>
struct EventCore {
  static bool IsSet(const EventWords& words) {
    return (A::Load(words.state, P::kSeeSet) & 1) != 0;
  }

  static void Set(EventWords& words) {
    uint32_t was = A::Load(words.state, std::memory_order_relaxed);
    uint32_t now;
    do {
      now = (was & 1) != 0 ? was : was + (P::kCountsSets ? 3 : 1);
    } while (!A::CompareExchange(words.state, was, now, P::kSet));
    TENON_CRASH_POINT("event.set");
    if (now == was || A::Load(words.sleepers, P::kLoadSleepers) == 0) return;
    Futex::Wake(words.state, P::kWakesAll ? KernelFutex::kAll : 1);
    TENON_CRASH_POINT("event.woken");
  }

  static void Clear(EventWords& words) {
    uint32_t was = A::Load(words.state, std::memory_order_relaxed);
    while ((was & 1) != 0 && !A::CompareExchange(words.state, was, was - 1,
                                                 std::memory_order_acq_rel)) {
    }
    TENON_CRASH_POINT("event.cleared");
  }

  // False if it was not set until the deadline.
  static bool Wait(EventWords& words, Deadline deadline) {
    const uint32_t before = A::Load(words.state, P::kSeeSet);
    if ((before & 1) != 0) return true;
    for (int i = Futex::SpinRounds(); i > 0; --i) {
      A::Pause();
      if (A::Load(words.state, P::kSeeSet) != before) return true;
    }
    while (!deadline.has_passed()) {
      A::FetchAdd(words.sleepers, 1, P::kCountSleeper);
      TENON_CRASH_POINT("event.counted");
      Futex::Wait(words.state, before, deadline);
      TENON_CRASH_POINT("event.slept");
      A::FetchSub(words.sleepers, 1, std::memory_order_relaxed);
      if (A::Load(words.state, P::kSeeSet) != before) return true;
    }
    return A::Load(words.state, P::kSeeSet) != before;
  }
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_INTERNAL_EVENT_CORE_H_
