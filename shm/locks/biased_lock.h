// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BiasedLock: a lock that costs the first thread that uses it two plain stores,
// until a second thread wants it. Internal to TimedMutex (timed_mutex.h).
//
// There is an ordinary lock, `word`, and a bias: the first thread to lock
// becomes the owner of the bias and locks with two words instead. Another
// thread takes the ordinary lock and revokes the bias, once and for good.
//
//   owner    lock:    busy = 1;  if bias is mine and not revoked: held
//            unlock:  busy = 0;  if bias is revoked: wake the revoker
//   revoker  lock:    lock word;  revoke bias;  fence all;  await busy == 0
//            unlock:  unlock word
//
// Exclusion. Between the revoker's store of `bias` and its load of `busy`, the
// fence (system_fence.h) executes a full barrier in the owner. If the owner's
// store busy = 1 precedes that barrier, the revoker sees it, or a later store,
// and waits. Otherwise the owner's load of `bias` follows the barrier and sees
// the revocation: the owner stores busy = 0 and takes `word` like other
// threads. It never stores busy = 1 again, as it looks at `bias` before.
//   A revoker whose deadline passes has fenced, but leaves the owner in. So
// every later holder of `word` awaits busy == 0, too; it needs no fence,
// because `word` orders its loads after those of the revoker.
// Data. The owner stores busy = 0 by a release, which the revoker acquires.
// Before the revocation no other thread has held the lock.
// Wake-up. The same with busy = 0: either the revoker sees it, or the owner
// sees the revocation and wakes. The kernel compares `busy` before it sleeps.
// One thread at most waits for `busy`, the holder of `word`.
// Threads that end. A bias is not handed on: the next thread that wants the
// lock revokes that of a thread that has ended. A new thread may get the name
// of one that has ended, and with it the bias: all steps of the former happen
// before those of the latter, so that the two are like one.
// Fork. In the child the bias of the forking thread is that of the child's
// thread; a bias of another thread is that of a thread that has ended. What
// such a thread held stays locked, as in any lock.

#ifndef TENON_SHM_LOCKS_BIASED_LOCK_H_
#define TENON_SHM_LOCKS_BIASED_LOCK_H_

#include <atomic>
#include <cstdint>

#include "tenon/shm/base/atomics.h"

namespace tenon {

// The steps and memory orders that the lock needs, as values, so that tests can
// show that each is needed. Production code uses this one.
struct BiasProtocol {
  static constexpr bool kClaimBySwap = true;
  static constexpr bool kCheckWhenBusy = true;
  static constexpr bool kFenceOthers = true;
  static constexpr bool kAwaitRevokedOwner = true;
  static constexpr bool kLeaveFirst = true;
  static constexpr bool kWakeAfterUnlock = true;
  static constexpr bool kWakeAfterRetreat = true;
  static constexpr bool kUnlockByName = true;
  static constexpr bool kMarkBeforeLeaving = true;
  static constexpr auto kUnlock = std::memory_order_release;
  static constexpr auto kRetreat = std::memory_order_release;
  static constexpr auto kSeeFree = std::memory_order_acquire;
};

// `System` has Wait() and Wake() of KernelFutex (futex.h); CanFence(), whether
// there may be a bias; and FenceAll(), a full barrier in all threads.
// Threads: any; each passes its name, which no other living thread has: not 0
// and even. The thread that has locked unlocks.
template <AtomicsPolicy A, typename System, typename P = BiasProtocol>
class BiasedLock {
 public:
  // False if it is held until `deadline`, also if the caller holds it. A thread
  // with a deadline that has passed does not revoke the bias of an owner that
  // is in.
  template <typename D>
  bool Lock(uint64_t self, D deadline) {
    return LockByBias(self) || LockByWord(self, deadline);
  }

  // The same for a thread that can do without: false also where Lock() would
  // revoke or claim the bias. Does not wait; the deadline has passed.
  template <typename D>
  bool LockKeepingBias(uint64_t self, D passed) {
    if (LockByBias(self)) return true;
    return IsRevoked() && LockRevoked(passed);
  }

  void Unlock(uint64_t self) {
    if (IsHeldByBias(self)) [[likely]] {
      UnlockByBias();
    } else {
      UnlockWord();
    }
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
  // Of `bias_`: the name of its owner, and whether it is revoked.
  static constexpr uint64_t kNoOwner = 0, kRevoked = 1;
  static constexpr uint32_t kFree = 0, kHeld = 1, kWaitedFor = 2;

  bool IsRevoked() const { return (A::Load(bias_, kRelaxed) & kRevoked) != 0; }

  bool LockByBias(uint64_t self) {
    if (A::Load(bias_, kRelaxed) != self) return false;
    if (A::Load(busy_, kRelaxed) != 0) return false;  // By this thread.
    A::Store(busy_, 1, kRelaxed);
    // A compiler barrier only: a fence from outside then orders the store
    // before the load.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!P::kCheckWhenBusy || A::Load(bias_, kRelaxed) == self) [[likely]]
      return true;
    A::Store(busy_, 0, P::kRetreat);
    if (P::kWakeAfterRetreat) System::Wake(busy_, 1);
    return false;
  }

  // An owner that retreats is busy while another thread holds it.
  bool IsHeldByBias(uint64_t self) const {
    return A::Load(busy_, kRelaxed) != 0 &&
           (!P::kUnlockByName ||
            (A::Load(bias_, kRelaxed) & ~kRevoked) == self);
  }

  void UnlockByBias() {
    const bool was_revoked = !P::kLeaveFirst && IsRevoked();
    A::Store(busy_, 0, P::kUnlock);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!(P::kLeaveFirst ? IsRevoked() : was_revoked)) [[likely]]
      return;
    if (P::kWakeAfterUnlock) System::Wake(busy_, 1);
  }

  template <typename D>
  [[gnu::noinline]] bool LockByWord(uint64_t self, D deadline) {
    if (A::Load(bias_, kRelaxed) == kNoOwner) {
      Claim(self);
      if (LockByBias(self)) return true;
    }
    return LockRevoked(deadline);
  }

  template <typename D>
  bool LockRevoked(D deadline) {
    if (!LockWord(deadline)) return false;
    if (AwaitOwner(deadline)) return true;
    UnlockWord();
    return false;
  }

  void Claim(uint64_t self) {
    const uint64_t bias = System::CanFence() ? self : kRevoked;
    uint64_t expected = kNoOwner;
    if (P::kClaimBySwap) {
      A::CompareExchange(bias_, expected, bias, kRelaxed);
    } else {
      A::Store(bias_, bias, kRelaxed);
    }
  }

  // Requires `word_`.
  template <typename D>
  bool AwaitOwner(D deadline) {
    if (!IsRevoked()) {
      if (A::Load(busy_, kRelaxed) != 0 && deadline.has_passed()) return false;
      A::Store(bias_, A::Load(bias_, kRelaxed) | kRevoked, kRelaxed);
      if (P::kFenceOthers) System::FenceAll();
    } else if (!P::kAwaitRevokedOwner) {
      return true;
    }
    while (A::Load(busy_, P::kSeeFree) != 0) {
      if (deadline.has_passed()) return false;
      System::Wait(busy_, 1, deadline);
    }
    return true;
  }

  template <typename D>
  bool LockWord(D deadline) {
    uint32_t expected = kFree;
    if (A::CompareExchange(word_, expected, kHeld, std::memory_order_acquire))
        [[likely]]
      return true;
    if (deadline.has_passed()) return false;
    for (;;) {
      // A thread that acquires it this way must assume further waiters.
      expected = kFree;
      if (A::CompareExchange(word_, expected, kWaitedFor,
                             std::memory_order_acquire)) {
        return true;
      }
      if (!P::kMarkBeforeLeaving && deadline.has_passed()) return false;
      if (expected == kHeld &&
          !A::CompareExchange(word_, expected, kWaitedFor, kRelaxed)) {
        continue;
      }
      // Not before: the only wake-up may have been for this thread, and the
      // next unlock must wake another.
      if (deadline.has_passed()) return false;
      System::Wait(word_, kWaitedFor, deadline);
    }
  }

  void UnlockWord() {
    uint32_t expected = kHeld;
    if (A::CompareExchange(word_, expected, kFree, std::memory_order_release))
        [[likely]]
      return;
    A::Store(word_, kFree, std::memory_order_release);
    System::Wake(word_, 1);
  }

  // In one cache line. The bias is written with `word_` once it is claimed.
  alignas(16) SharedWord<uint64_t> bias_{kNoOwner};
  SharedWord<uint32_t> busy_{0};  // Written by the owner.
  SharedWord<uint32_t> word_{kFree};
};

}  // namespace tenon

#endif  // TENON_SHM_LOCKS_BIASED_LOCK_H_
