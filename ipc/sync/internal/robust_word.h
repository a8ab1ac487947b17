// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RobustWord: a lock in shared memory that becomes free when the thread that
// holds it dies, and whose memory may be corrupt.
//
//   if (!RobustWord::TryLock(words->lock)) return false;  // A living holder.
//   ...
//   RobustWord::Unlock(words->lock);
//
// A robust mutex of pthreads keeps pointers in shared memory, which corrupt
// bytes turn into crashes. The kernel needs none of them for one lock of a
// thread: the address of its word is the `list_op_pending` field of the
// thread's robust list, in private memory, for as long as the lock is wanted or
// held. When the thread dies, at any instruction, the kernel replaces the
// thread number in the word by FUTEX_OWNER_DIED.

#ifndef TENON_IPC_SYNC_INTERNAL_ROBUST_WORD_H_
#define TENON_IPC_SYNC_INTERNAL_ROBUST_WORD_H_

#include <cstdint>

#include "tenon/shm/base/atomics.h"

namespace tenon {

// Ownership: none; the word is in a shared mapping, and is initially 0.
// Threads: a thread holds one RobustWord at a time, and acquires and releases
//   no robust mutex meanwhile.
// Processes: any number, in any pid namespaces. The holder must not fork().
// Trust: a corrupt word is a lock that seems held, or is free.
// Failure: where the kernel refuses get_robust_list(), a lock whose holder is
//   killed stays held.
class RobustWord {
 public:
  using Word = SharedWord<uint32_t>;

  // Whether a living thread seems to hold it; a snapshot.
  static bool IsLocked(const Word& word);
  // Acquires it unless a living thread holds it. What a holder wrote before it
  // died is visible. Does not block.
  static bool TryLock(Word& word);
  // By the thread that holds it.
  static void Unlock(Word& word);
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_INTERNAL_ROBUST_WORD_H_
