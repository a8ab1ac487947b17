// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KernelFutex: sleeps until a word of shared memory changes.
//
//   while (StdAtomics::Load(word, acquire) == old) {
//     if (deadline.has_passed()) return Late();
//     KernelFutex::Wait(word, old, deadline);
//   }
//
// It is a policy, as StdAtomics is: the tests run the same code over a futex of
// the seeded scheduler.

#ifndef TENON_SHM_LOCKS_FUTEX_H_
#define TENON_SHM_LOCKS_FUTEX_H_

#include <cstdint>

#include "absl/time/time.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// The longest single sleep, whatever the deadline. A waker may be killed or
// stopped between its store and its wake call, and so may a sleeper that was
// woken instead of others. All other sleepers then check again after this time.
inline constexpr absl::Duration kFutexRecheck = absl::Milliseconds(100);

// Threads, processes: any number, over a word in a shared mapping.
// Trust: the word may hold anything; only waking depends on it.
struct KernelFutex {
  // Sleeps if `word` is `expected`, until it is woken, `deadline` or
  // kFutexRecheck passes, or a signal comes. Does not report which: the caller
  // checks.
  static void Wait(const SharedWord<uint32_t>& word, uint32_t expected,
                   Deadline deadline);

  // Wakes up to `count` sleepers.
  static void Wake(const SharedWord<uint32_t>& word, uint32_t count);
  static constexpr uint32_t kAll = 0x7fffffff;

  // The number of checks before a sleep: none on one processor, where the
  // awaited thread cannot run meanwhile.
  static int SpinRounds();
};

}  // namespace tenon

#endif  // TENON_SHM_LOCKS_FUTEX_H_
