// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/internal/robust_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tenon/shm/base/atomics.h"

namespace tenon {
namespace {

// The robust list of this thread, which the C library has registered; null if
// unknown.
robust_list_head* ListOfThisThread() {
  robust_list_head* head = nullptr;
  size_t size = 0;
  return syscall(SYS_get_robust_list, 0, &head, &size) == 0 ? head : nullptr;
}

// Sets the word that the kernel handles if this thread dies; null: none.
void SetPending(RobustWord::Word* word) {
  robust_list_head* const head = ListOfThisThread();
  if (head == nullptr) return;
  robust_list* entry = nullptr;
  if (word != nullptr) {
    entry = reinterpret_cast<robust_list*>(reinterpret_cast<char*>(word) -
                                           head->futex_offset);
  }
  // The kernel reads it when this thread is killed.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  __atomic_store_n(&head->list_op_pending, entry, __ATOMIC_RELAXED);
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace

bool RobustWord::IsLocked(const Word& word) {
  return (StdAtomics::Load(word, std::memory_order_acquire) & FUTEX_TID_MASK) !=
         0;
}

bool RobustWord::TryLock(Word& word) {
  uint32_t seen = StdAtomics::Load(word, std::memory_order_acquire);
  // Another pid namespace may have a thread of the same number: the word of a
  // living holder is not registered.
  if ((seen & FUTEX_TID_MASK) != 0) return false;
  SetPending(&word);
  if (StdAtomics::CompareExchange(word, seen, static_cast<uint32_t>(gettid()),
                                  std::memory_order_acq_rel)) {
    return true;
  }
  SetPending(nullptr);
  return false;
}

void RobustWord::Unlock(Word& word) {
  StdAtomics::Store(word, 0u, std::memory_order_release);
  SetPending(nullptr);
}

}  // namespace tenon
