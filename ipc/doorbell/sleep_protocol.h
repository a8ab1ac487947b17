// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The protocol by which one process sleeps and others wake it without a lost
// wake-up. Internal to Doorbell (doorbell.h), which adds descriptors.
//
//   sleeper: sleeping = odd;  check again;  sleep;  sleeping = even
//   ringer:  publish;  if sleeping is odd: wake the sleeper
//
// At least one of the two must see the other. There are two ways to ensure
// that:
//   sequential  both publish and check by seq_cst accesses, which costs the
//               publisher a full barrier each time;
//   fenced      the sleeper fences the threads of all participants
//               (system_fence.h) before it checks again, and they publish by
//               a release store.
// A ringer may use the latter only if it is fenced, and if all sleepers that
// wait for it fence.
//
// The `sleeping` word is described in sleeping_word.h.

#ifndef TENON_IPC_DOORBELL_SLEEP_PROTOCOL_H_
#define TENON_IPC_DOORBELL_SLEEP_PROTOCOL_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "tenon/ipc/doorbell/sleeping_word.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {

// How a value is published to possible sleepers; see above.
enum class Publication { kSequential, kFenced };

// The memory orders and steps that the protocol needs, as values, so that tests
// can show that each is needed. Production code uses this one. The sleeper
// checks again by seq_cst loads.
struct SleepProtocol {
  static constexpr std::memory_order kFallAsleep = std::memory_order_seq_cst;
  static constexpr std::memory_order kLoadSleeping = std::memory_order_seq_cst;
  static constexpr bool kRecheck = true;
  static constexpr bool kFenceOthers = true;
  // Otherwise a ringer rings only once in its life.
  static constexpr bool kRingForEachSleep = true;
};

// Publishes `value` by the store that P names for `publication`; the caller
// rings afterwards.
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
  using Word = SleepingWord;

  // `word` is 0, or the value left by a former sleeper.
  explicit Sleeper(Word* word)
      : word_(word), sequence_(A::Load(*word, std::memory_order_relaxed)) {}

  // Announces a sleep, and checks again. True: the caller may sleep, and is
  // rung for every later publication; then call Awake(). False: `ready` holds
  // already. `fence_others` fences the threads of all participants, or does
  // nothing if all publish sequentially.
  template <typename FenceOthers, typename Ready>
  bool FallAsleep(FenceOthers&& fence_others, Ready&& ready) {
    sequence_ += 1 + (sequence_ & 1);
    A::Store(*word_, sequence_, P::kFallAsleep);
    if (P::kFenceOthers) fence_others();
    if (!P::kRecheck || !ready()) return true;
    Awake();
    return false;
  }

  // The same if all participants publish sequentially.
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

// Whether a ringer that has last rung for the sleep `rung_for` (0: none yet)
// must ring for `sleep`, a result of LoadSleep(); updates `rung_for`.
template <typename P = SleepProtocol>
bool MustRingFor(uint64_t sleep, uint64_t& rung_for) {
  if (sleep == rung_for) return false;
  if (!P::kRingForEachSleep && rung_for != 0) return false;
  rung_for = sleep;
  return true;
}

// The ringer's half. Ownership: none. Threads: one.
template <AtomicsPolicy A = StdAtomics, typename P = SleepProtocol>
class Ringer {
 public:
  // Whether the ringer must wake the sleeper of `word` after a publication: it
  // sleeps, and was not rung for that sleep yet.
  bool MustRing(const SleepingWord& word) {
    const uint64_t sleep = LoadSleep<A>(word, P::kLoadSleeping);
    if (sleep == 0) [[likely]]
      return false;
    return MustRingFor<P>(sleep, rung_for_);
  }

 private:
  uint64_t rung_for_ = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_DOORBELL_SLEEP_PROTOCOL_H_
