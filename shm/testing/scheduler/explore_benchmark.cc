// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The number of schedules that one core explores in a second, and the time of a
// scheduling point with its operation.

#include <atomic>
#include <cstdint>

#include "benchmark/benchmark.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/spsc_ring_body.h"

namespace tenon {
namespace {

// Schedules between two readings of the clock.
constexpr uint64_t kBatch = 1000;

void Run(benchmark::State& state, void (*body)(Schedule&)) {
  uint64_t schedules = 0;
  uint64_t steps = 0;
  uint64_t seed = 1;
  for (auto _ : state) {
    const ExploreResult result =
        Explore({.first_seed = seed, .schedules = kBatch}, body);
    if (!result.ok) {
      state.SkipWithError(result.failure.c_str());
      return;
    }
    seed += kBatch;
    schedules += result.schedules;
    steps += result.steps;
  }
  state.SetItemsProcessed(static_cast<int64_t>(schedules));
  state.counters["steps_per_schedule"] =
      static_cast<double>(steps) / static_cast<double>(schedules);
  state.counters["s_per_step"] = benchmark::Counter(
      static_cast<double>(steps),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Items are schedules.
void BM_Explore_SpscRing(benchmark::State& state) {
  Run(state, [](Schedule& s) { RunSpscRing(s, {}); });
}
BENCHMARK(BM_Explore_SpscRing);

void BM_Explore_StoreBuffering(benchmark::State& state) {
  Run(state, [](Schedule& s) {
    SharedWord<uint64_t> x{0};
    SharedWord<uint64_t> y{0};
    s.AddThread("one", [&] {
      SimAtomics::Store(x, 1, std::memory_order_release);
      SimAtomics::Load(y, std::memory_order_acquire);
    });
    s.AddThread("two", [&] {
      SimAtomics::Store(y, 1, std::memory_order_release);
      SimAtomics::Load(x, std::memory_order_acquire);
    });
    s.Run();
  });
}
BENCHMARK(BM_Explore_StoreBuffering);

}  // namespace
}  // namespace tenon
