// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SimAtomics: the AtomicsPolicy of code that runs under the seeded scheduler.
//
// At its first use in a schedule a word has the value in its memory; from then
// on its value is in the Schedule, and the memory is not accessed. So a word
// must not move until the body returns, and its final value is that of
// SimAtomics::Load() after Schedule::Run().

#ifndef TENON_SHM_TESTING_SCHEDULER_SIM_ATOMICS_H_
#define TENON_SHM_TESTING_SCHEDULER_SIM_ATOMICS_H_

#include <atomic>
#include <type_traits>

#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/schedule.h"

namespace tenon {

// Every operation is a scheduling point. Aborts outside of Explore(), and for
// an invalid order of the operation.
struct SimAtomics {
  template <SharedWordValue T>
  static T Load(const SharedWord<T>& word, std::memory_order order) {
    Schedule& s = Schedule::Current();
    return static_cast<T>(s.Load(s.Find(word), order));
  }

  template <SharedWordValue T>
  static void Store(SharedWord<T>& word, std::type_identity_t<T> value,
                    std::memory_order order) {
    Schedule& s = Schedule::Current();
    s.Store(s.Find(word), value, order);
  }

  template <SharedWordValue T>
  static T FetchAdd(SharedWord<T>& word, std::type_identity_t<T> value,
                    std::memory_order order) {
    Schedule& s = Schedule::Current();
    return static_cast<T>(s.FetchAdd(s.Find(word), value, order));
  }

  template <SharedWordValue T>
  static T FetchSub(SharedWord<T>& word, std::type_identity_t<T> value,
                    std::memory_order order) {
    return FetchAdd(word, static_cast<T>(T{0} - value), order);
  }

  template <SharedWordValue T>
  static bool CompareExchange(SharedWord<T>& word, T& expected,
                              std::type_identity_t<T> value,
                              std::memory_order order) {
    Schedule& s = Schedule::Current();
    const auto result =
        s.CompareExchange(s.Find(word), {expected, value}, order);
    if (!result.swapped) expected = static_cast<T>(result.value);
    return result.swapped;
  }

  static void Fence(std::memory_order order) {
    Schedule::Current().Fence(order);
  }

  // Stands for SystemFence() of "tenon/shm/base/system_fence.h".
  static void FenceAll() { Schedule::Current().FenceAll(); }

  static void Pause() { Schedule::Current().Pause(); }
};

static_assert(AtomicsPolicy<SimAtomics>);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_SIM_ATOMICS_H_
