// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RobustRow: the place of one waiting thread in a Condition or a Barrier. Its
// mutex is held by that thread as long as it waits, so that the others know
// when it has died.

#ifndef TENON_IPC_SYNC_INTERNAL_ROBUST_ROW_H_
#define TENON_IPC_SYNC_INTERNAL_ROBUST_ROW_H_

#include <errno.h>

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "tenon/ipc/sync/internal/robust_mutex.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"

namespace tenon {

// Ownership, trust: as RobustMutex. Taken under the lock of the table that it
// is in, and given back by the thread that took it, with or without that lock.
struct alignas(64) RobustRow {
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

  // False if somebody has it, dead or alive, or is about to give it back.
  bool TryTake(uint32_t as) {
    if (!is(kFree)) return false;
    const int error = alive.TryLock();
    if (error == EOWNERDEAD) alive.MakeConsistent();
    if (error != 0 && error != EOWNERDEAD) return false;
    TENON_CRASH_POINT("row.locked");
    Become(as);
    TENON_CRASH_POINT("row.taken");
    return true;
  }
  void GiveBack() {
    Become(kFree);
    TENON_CRASH_POINT("row.freed");
    alive.Unlock();
    TENON_CRASH_POINT("row.given_back");
  }

  // Whether who had it died with it. Under the table's lock it stays so until
  // Bury().
  bool IsDead() const { return !is(kFree) && alive.OwnerDied(); }
  // Under the table's lock. Leaves the row as a thread does that is killed in
  // GiveBack(), and takes no lock, so that a thread at RobustMutex::kMaxHeld
  // can do it: the next TryTake() makes `alive` consistent.
  void Bury() {
    Become(kFree);
    TENON_CRASH_POINT("row.buried");
  }

  RobustMutex alive;
  SharedWord<uint32_t> state;  // kFree, or what its table says. A futex.
  uint64_t ticket;             // Under the table's lock.
};
static_assert(sizeof(RobustRow) == 64);

}  // namespace tenon

#endif  // TENON_IPC_SYNC_INTERNAL_ROBUST_ROW_H_
