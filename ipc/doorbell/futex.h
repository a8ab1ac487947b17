// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KernelFutex: sleeping until a word of shared memory changes.
//
//   while (StdAtomics::Load(word, acquire) == old) {
//     if (deadline.has_passed()) return Late();
//     KernelFutex::Wait(word, old, deadline);
//   }
//
// It is a policy, as StdAtomics is: the tests run the same code over a futex of
// the seeded scheduler.

#ifndef TENON_IPC_DOORBELL_FUTEX_H_
#define TENON_IPC_DOORBELL_FUTEX_H_

#include <cstdint>

#include "absl/time/time.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// How long a sleep lasts at most, deadline or not. The process that was to wake
// a sleeper may be killed, or be stopped, between the store and the call that
// wakes, and so may a sleeper that has been woken in place of others. Then all
// others look for themselves after this time.
inline constexpr absl::Duration kFutexRecheck = absl::Milliseconds(100);

// Threads, processes: any number, over a word in a shared mapping.
// Trust: the word may hold anything; nothing but waking depends on it.
struct KernelFutex {
  // Sleeps if `word` is `expected`, until it is woken, `deadline` passes,
  // kFutexRecheck passes, or a signal comes. Says nothing: the caller looks.
  static void Wait(const SharedWord<uint32_t>& word, uint32_t expected,
                   Deadline deadline);

  // Wakes up to `count` sleepers.
  static void Wake(const SharedWord<uint32_t>& word, uint32_t count);
  static constexpr uint32_t kAll = 0x7fffffff;

  // How often to look before sleeping: not at all on one processor, where the
  // one that is waited for cannot run meanwhile.
  static int SpinRounds();
};

}  // namespace tenon

#endif  // TENON_IPC_DOORBELL_FUTEX_H_
