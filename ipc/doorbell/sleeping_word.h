// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SleepingWord: the word in shared memory by which the sleeper of a doorbell
// (doorbell.h) tells its ringers whether it sleeps.
//
//   struct Words {  // In memory that only the sleeper writes.
//     SleepingWord sleeping;
//   };
//
// It is a sequence, initially 0, that only the sleeper changes: odd while the
// sleeper sleeps or is about to, and another odd number for each sleep. So a
// ringer can distinguish one sleep from the next, and ring once for each.

#ifndef TENON_IPC_DOORBELL_SLEEPING_WORD_H_
#define TENON_IPC_DOORBELL_SLEEPING_WORD_H_

#include <atomic>
#include <cstdint>

#include "tenon/shm/base/atomics.h"

namespace tenon {

using SleepingWord = SharedWord<uint64_t>;

// The sleep that a ringer has to end after a publication: an odd number, or 0
// if there is none. A load and a branch.
// Memory order: a sleeper that is not seen here sees the publication, if that
//   was a seq_cst store; or a release store, and the sleeper fences this thread
//   (system_fence.h).
template <AtomicsPolicy A = StdAtomics>
uint64_t LoadSleep(const SleepingWord& word,
                   std::memory_order order = std::memory_order_seq_cst) {
  // A compiler barrier only: a fence from outside then orders the publication
  // before this load.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const uint64_t sequence = A::Load(word, order);
  if ((sequence & 1) == 0) [[likely]]
    return 0;
  return sequence;
}

}  // namespace tenon

#endif  // TENON_IPC_DOORBELL_SLEEPING_WORD_H_
