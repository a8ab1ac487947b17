// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// One schedule of SpscRing, for its test and for the benchmark.

#ifndef TENON_SHM_TESTING_SCHEDULER_SPSC_RING_BODY_H_
#define TENON_SHM_TESTING_SCHEDULER_SPSC_RING_BODY_H_

#include <cstddef>
#include <cstdint>

#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_var.h"
#include "tenon/shm/testing/scheduler/spsc_ring.h"

namespace tenon {

// Four items through two slots: every slot is used twice, so that the producer
// meets a full ring and the consumer an empty one. Checks their order.
inline void RunSpscRing(Schedule& schedule, const SpscRingOrders& orders) {
  constexpr uint64_t kItems = 4;
  constexpr size_t kSlots = 2;
  SpscRing<SimAtomics, uint64_t, SimVar<uint64_t>, kSlots> ring(orders);
  schedule.Name(ring.head(), "head");
  schedule.Name(ring.tail(), "tail");
  for (size_t i = 0; i < kSlots; ++i) {
    ring.slots()[i].set_label("slot", static_cast<int>(i));
  }
  schedule.AddThread("producer", [&] {
    for (uint64_t i = 1; i <= kItems; ++i) {
      while (!ring.TryPut(i)) SimAtomics::Pause();
    }
  });
  schedule.AddThread("consumer", [&] {
    for (uint64_t i = 1; i <= kItems; ++i) {
      uint64_t value = 0;
      while (!ring.TryTake(value)) SimAtomics::Pause();
      TENON_SIM_CHECK(value == i);
    }
  });
  schedule.Run();
}

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_SPSC_RING_BODY_H_
