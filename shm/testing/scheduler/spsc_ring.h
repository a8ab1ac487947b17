// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SpscRing: a ring with one producer and one consumer, as a template of its
// atomics: an example of code tested under the scheduler. The orders are an
// argument, so that tests can weaken them one by one. Not for production.

#ifndef TENON_SHM_TESTING_SCHEDULER_SPSC_RING_H_
#define TENON_SHM_TESTING_SCHEDULER_SPSC_RING_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tenon/shm/base/atomics.h"

namespace tenon {

// The defaults are correct. Each of them is needed.
struct SpscRingOrders {
  std::memory_order publish = std::memory_order_release;
  std::memory_order see_published = std::memory_order_acquire;
  std::memory_order acknowledge = std::memory_order_release;
  std::memory_order see_acknowledged = std::memory_order_acquire;
  bool acknowledge_before_reading = false;
};

// One thread may call TryPut(), and one TryTake(), at the same time. Slot: the
// storage of a T; plain data.
template <AtomicsPolicy A, typename T, typename Slot, size_t kSlots>
class SpscRing {
 public:
  explicit SpscRing(SpscRingOrders orders = {}) : orders_(orders) {}

  // False if the ring is full.
  bool TryPut(T value) {
    const uint64_t head = A::Load(head_, std::memory_order_relaxed);
    const uint64_t tail = A::Load(tail_, orders_.see_acknowledged);
    if (head - tail == kSlots) return false;
    slots_[head % kSlots] = value;
    A::Store(head_, head + 1, orders_.publish);
    return true;
  }

  // False if the ring is empty.
  bool TryTake(T& value) {
    const uint64_t tail = A::Load(tail_, std::memory_order_relaxed);
    if (A::Load(head_, orders_.see_published) == tail) return false;
    if (orders_.acknowledge_before_reading) {
      A::Store(tail_, tail + 1, orders_.acknowledge);
    }
    value = slots_[tail % kSlots];
    if (!orders_.acknowledge_before_reading) {
      A::Store(tail_, tail + 1, orders_.acknowledge);
    }
    return true;
  }

  // For names in traces.
  SharedWord<uint64_t>& head() { return head_; }
  SharedWord<uint64_t>& tail() { return tail_; }
  std::array<Slot, kSlots>& slots() { return slots_; }

 private:
  const SpscRingOrders orders_;
  SharedWord<uint64_t> head_{0};  // Written by the producer.
  SharedWord<uint64_t> tail_{0};  // Written by the consumer.
  std::array<Slot, kSlots> slots_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_SPSC_RING_H_
