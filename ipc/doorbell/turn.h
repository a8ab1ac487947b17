// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Turn: a lock between the threads of one process that is waited for until a
// deadline, and may be held for as long as its holder waits for others.
//
//   TurnGuard mine(&turn, deadline);
//   if (!mine.held()) return absl::DeadlineExceededError("...");

#ifndef TENON_IPC_DOORBELL_TURN_H_
#define TENON_IPC_DOORBELL_TURN_H_

#include <atomic>
#include <cstdint>

#include "tenon/ipc/doorbell/futex.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// std::timed_mutex would do; its clocks are not known to every
// ThreadSanitizer.
// Threads: any. Processes: means nothing to others. Failure: cannot fail.
class Turn {
 public:
  Turn() = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // False if it is held by others until `deadline`. One atomic operation if
  // nobody holds it.
  bool Lock(Deadline deadline) {
    uint32_t expected = kFree;
    if (StdAtomics::CompareExchange(word_, expected, kHeld,
                                    std::memory_order_acquire)) [[likely]] {
      return true;
    }
    for (;;) {
      // Whoever gets it this way does not know whether others wait, too.
      expected = kFree;
      if (StdAtomics::CompareExchange(word_, expected, kWaitedFor,
                                      std::memory_order_acquire)) {
        return true;
      }
      if (deadline.has_passed()) return false;
      if (expected == kHeld &&
          !StdAtomics::CompareExchange(word_, expected, kWaitedFor,
                                       std::memory_order_relaxed)) {
        continue;
      }
      KernelFutex::Wait(word_, kWaitedFor, deadline);
    }
  }

  void Unlock() {
    uint32_t expected = kHeld;
    if (StdAtomics::CompareExchange(word_, expected, kFree,
                                    std::memory_order_release)) [[likely]] {
      return;
    }
    StdAtomics::Store(word_, kFree, std::memory_order_release);
    KernelFutex::Wake(word_, 1);
  }

 private:
  static constexpr uint32_t kFree = 0, kHeld = 1, kWaitedFor = 2;

  SharedWord<uint32_t> word_{kFree};
};

class TurnGuard {
 public:
  TurnGuard(Turn* turn, Deadline deadline)
      : turn_(turn->Lock(deadline) ? turn : nullptr) {}
  ~TurnGuard() {
    if (turn_ != nullptr) turn_->Unlock();
  }
  TurnGuard(const TurnGuard&) = delete;
  TurnGuard& operator=(const TurnGuard&) = delete;

  bool held() const { return turn_ != nullptr; }

 private:
  Turn* turn_;
};

}  // namespace tenon

#endif  // TENON_IPC_DOORBELL_TURN_H_
