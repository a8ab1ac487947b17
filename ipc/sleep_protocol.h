// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The protocol by which one process sleeps and others wake it, and no wake-up
// is lost. Internal to Doorbell (doorbell.h), which adds descriptors.
//
//   sleeper: sleeping = odd;  look again;  sleep;  sleeping = even
//   ringer:  publish;  if sleeping is odd: wake him
//
// The `sleeping` word is a sequence that only the sleeper writes; it is odd
// while he sleeps or is about to. That it counts lets a ringer tell one sleep
// from the next, and ring once for each.

#ifndef TENON_IPC_SLEEP_PROTOCOL_H_
#define TENON_IPC_SLEEP_PROTOCOL_H_

#include <atomic>
#include <cstdint>

#include "tenon/shm/atomics.h"

namespace tenon {

// What the protocol needs, as values, so that tests can show that each of them
// is needed. Production code has this one. Whoever publishes does so by a
// seq_cst store, and who looks again by a seq_cst load: of the two, at least
// one sees the other.
struct SleepProtocol {
  static constexpr std::memory_order kFallAsleep = std::memory_order_seq_cst;
  static constexpr std::memory_order kLoadSleeping = std::memory_order_seq_cst;
  static constexpr bool kLookAgain = true;
  // Else a ringer rings only once in its life.
  static constexpr bool kRingForEachSleep = true;
};

// The sleeper's half. Ownership: none. Threads: one.
template <AtomicsPolicy A = StdAtomics, typename P = SleepProtocol>
class Sleeper {
 public:
  using Word = SharedWord<uint64_t>;

  // `word` is 0, or what a former sleeper left.
  explicit Sleeper(Word* word)
      : word_(word), sequence_(A::Load(*word, std::memory_order_relaxed)) {}

  // Announces a sleep, and looks again. True: he may sleep, and is rung for
  // what is published from now on; then Awake(). False: `ready` holds already.
  template <typename Ready>
  bool FallAsleep(Ready&& ready) {
    sequence_ += 1 + (sequence_ & 1);
    A::Store(*word_, sequence_, P::kFallAsleep);
    if (!P::kLookAgain || !ready()) return true;
    Awake();
    return false;
  }

  // Relaxed: a ringer that sees it late rings once too often.
  void Awake() {
    sequence_ += sequence_ & 1;
    A::Store(*word_, sequence_, std::memory_order_relaxed);
  }

  bool asleep() const { return (sequence_ & 1) != 0; }

 private:
  Word* word_;
  uint64_t sequence_;
};

// The half of one who rings. Ownership: none. Threads: one.
template <AtomicsPolicy A = StdAtomics, typename P = SleepProtocol>
class Ringer {
 public:
  // Whether to wake the sleeper of `word`, after a seq_cst publication: if he
  // sleeps, and has not been rung for that sleep.
  bool MustRing(const SharedWord<uint64_t>& word) {
    const uint64_t sleep = A::Load(word, P::kLoadSleeping);
    if ((sleep & 1) == 0) [[likely]]
      return false;
    if (sleep == rung_for_) return false;
    if (!P::kRingForEachSleep && rung_for_ != 0) return false;
    rung_for_ = sleep;
    return true;
  }

 private:
  uint64_t rung_for_ = 0;  // Even: none yet.
};

}  // namespace tenon

#endif  // TENON_IPC_SLEEP_PROTOCOL_H_
