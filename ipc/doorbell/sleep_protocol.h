// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The protocol by which one process sleeps and others wake it, and no wake-up
// is lost. Internal to Doorbell (doorbell.h), which adds descriptors.
//
//   sleeper: sleeping = odd;  look again;  sleep;  sleeping = even
//   ringer:  publish;  if sleeping is odd: wake him
//
// Of the two, at least one must see the other. There are two ways to that:
//   sequential  both publish and look by seq_cst accesses, which costs whoever
//               publishes a full barrier, each time;
//   fenced      the sleeper fences the threads of all (system_fence.h) before
//               he looks again, and the others publish by a release store.
// A ringer may do the latter only if he is fenced, and knows that all who sleep
// for him fence.
//
// The `sleeping` word is a sequence that only the sleeper writes; it is odd
// while he sleeps or is about to. That it counts lets a ringer tell one sleep
// from the next, and ring once for each.

#ifndef TENON_IPC_DOORBELL_SLEEP_PROTOCOL_H_
#define TENON_IPC_DOORBELL_SLEEP_PROTOCOL_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "tenon/shm/base/atomics.h"

namespace tenon {

// How something is published to those who may sleep for it; see above.
enum class Publication { kSequential, kFenced };

// What the protocol needs, as values, so that tests can show that each of them
// is needed. Production code has this one. Who looks again does so
// by seq_cst loads.
struct SleepProtocol {
  static constexpr std::memory_order kFallAsleep = std::memory_order_seq_cst;
  static constexpr std::memory_order kLoadSleeping = std::memory_order_seq_cst;
  static constexpr bool kLookAgain = true;
  static constexpr bool kFenceOthers = true;
  // Else a ringer rings only once in its life.
  static constexpr bool kRingForEachSleep = true;
};

// Shows `value`, which P says how to do in either way; then ring.
template <typename A, typename P>
void PublishWord(SharedWord<uint64_t>& word, uint64_t value,
                 std::memory_order sequential, Publication publication) {
  if (publication == Publication::kFenced) {
    A::Store(word, value, P::kPublishFenced);
  } else {
    A::Store(word, value, sequential);
  }
}

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
  // `fence_others` fences the threads of all, or does nothing if everybody
  // publishes sequentially.
  template <typename FenceOthers, typename Ready>
  bool FallAsleep(FenceOthers&& fence_others, Ready&& ready) {
    sequence_ += 1 + (sequence_ & 1);
    A::Store(*word_, sequence_, P::kFallAsleep);
    if (P::kFenceOthers) fence_others();
    if (!P::kLookAgain || !ready()) return true;
    Awake();
    return false;
  }

  // The same where everybody publishes sequentially.
  template <typename Ready>
  bool FallAsleep(Ready&& ready) {
    return FallAsleep([] {}, std::forward<Ready>(ready));
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
  // Whether to wake the sleeper of `word`, after a publication: if he sleeps,
  // and has not been rung for that sleep.
  bool MustRing(const SharedWord<uint64_t>& word) {
    // No instruction: a fence from outside finds the publication before this.
    std::atomic_signal_fence(std::memory_order_seq_cst);
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

#endif  // TENON_IPC_DOORBELL_SLEEP_PROTOCOL_H_
