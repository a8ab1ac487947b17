// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The limit of the benchmarks of rings and queues: a ring with one producer and
// one consumer in plain shared memory, which spin, each on a core of its own.

#ifndef TENON_IPC_SLOTS_BARE_RING_H_
#define TENON_IPC_SLOTS_BARE_RING_H_

#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "tenon/shm/base/atomics.h"

namespace tenon {

// Pins the calling thread to the usable core number `which`, from 0 on.
inline void PinToCore(int which) {
  cpu_set_t all;
  CPU_ZERO(&all);
  if (sched_getaffinity(0, sizeof(all), &all) != 0) return;
  for (int core = 0, n = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all) || n++ != which) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

template <typename Item>
struct BareRing {
  static constexpr uint64_t kCapacity = 1024;

  // `known_tail` and `known_head` are the caller's, initially 0.
  void Put(const Item& item, uint64_t& known_tail) {
    const uint64_t at = StdAtomics::Load(head, std::memory_order_relaxed);
    while (at - known_tail == kCapacity) {
      known_tail = StdAtomics::Load(tail, std::memory_order_acquire);
      if (at - known_tail == kCapacity) StdAtomics::Pause();
    }
    slots[at % kCapacity] = item;
    StdAtomics::Store(head, at + 1, std::memory_order_release);
  }

  void Get(Item& item, uint64_t& known_head) {
    const uint64_t at = StdAtomics::Load(tail, std::memory_order_relaxed);
    while (known_head == at) {
      known_head = StdAtomics::Load(head, std::memory_order_acquire);
      if (known_head == at) StdAtomics::Pause();
    }
    item = slots[at % kCapacity];
    StdAtomics::Store(tail, at + 1, std::memory_order_release);
  }

  alignas(64) SharedWord<uint64_t> head{0};
  alignas(64) SharedWord<uint64_t> tail{0};
  alignas(64) std::array<Item, kCapacity> slots;
};

}  // namespace tenon

#endif  // TENON_IPC_SLOTS_BARE_RING_H_
