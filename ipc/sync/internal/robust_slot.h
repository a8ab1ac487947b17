// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RobustSlot: the slot of one waiting thread in a Condition or a Barrier. The
// thread holds the slot's mutex while it waits, so that its death is noticed.

#ifndef TENON_IPC_SYNC_INTERNAL_ROBUST_SLOT_H_
#define TENON_IPC_SYNC_INTERNAL_ROBUST_SLOT_H_

#include <errno.h>

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "tenon/ipc/sync/internal/robust_mutex.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"

namespace tenon {

// Ownership, trust: as RobustMutex. Acquired under the lock of its table, and
//   released by the thread that acquired it, with or without that lock.
struct alignas(64) RobustSlot {
  static constexpr uint32_t kFree = 0;

  absl::Status Init() { return alive.Init(RobustMutex::Kind::kErrorCheck); }

  bool is(uint32_t is) const {
    return StdAtomics::Load(state, std::memory_order_acquire) == is;
  }
  void Become(uint32_t next) {
    StdAtomics::Store(state, next, std::memory_order_release);
  }

  // False if it is not `from`.
  bool BecomeIf(uint32_t from, uint32_t next) {
    return StdAtomics::CompareExchange(state, from, next,
                                       std::memory_order_acq_rel);
  }

  // False if a thread, dead or alive, has it or is about to release it.
  bool TryAcquire(uint32_t as) {
    if (!is(kFree)) return false;
    const int error = alive.TryLock();
    if (error == EOWNERDEAD) alive.MakeConsistent();
    if (error != 0 && error != EOWNERDEAD) return false;
    TENON_CRASH_POINT("slot.locked");
    Become(as);
    TENON_CRASH_POINT("slot.taken");
    return true;
  }
  void Release() {
    Become(kFree);
    TENON_CRASH_POINT("slot.freed");
    alive.Unlock();
    TENON_CRASH_POINT("slot.given_back");
  }

  // Whether its holder has died. Under the table's lock this stays true until
  // Reclaim().
  bool IsDead() const { return !is(kFree) && alive.OwnerDied(); }
  // Under the table's lock. Leaves the slot as a thread does that is killed in
  // Release(), and takes no lock, so that a thread at RobustMutex::kMaxHeld
  // can call it: the next TryAcquire() makes `alive` consistent.
  void Reclaim() {
    Become(kFree);
    TENON_CRASH_POINT("slot.buried");
  }

  RobustMutex alive;
  SharedWord<uint32_t> state;  // kFree, or a state of its table. A futex.
  uint64_t ticket;             // Guarded by the table's lock.
};
static_assert(sizeof(RobustSlot) == 64);

}  // namespace tenon

#endif  // TENON_IPC_SYNC_INTERNAL_ROBUST_SLOT_H_
