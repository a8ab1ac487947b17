// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ScheduleStrategy: decides at every scheduling point which thread runs next.
//
//   kUniform     each thread that can run is as likely as any other.
//   kPriorities  the thread of the highest priority runs; priorities are drawn
//                at the start, and at a few random points the running thread
//                drops to the lowest. Finds a bug that needs d orderings with
//                a probability of at least 1 / (n k^(d-1)) for n threads and k
//                steps (PCT; Burckhardt et al., ASPLOS 2010).
//   kStarvation  uniform, but for random stretches one thread does not run at
//                all; a stretch is as likely to be short as long on a
//                logarithmic scale (after the chaos mode of rr).
//   kMixed       one of these, drawn for each schedule: half uniform.
//
// A thread that waits (Waits()) runs again once another thread has changed a
// word, or when all wait, and now and then in between. So spinning is short and
// ends, whatever the kind.

#ifndef TENON_SHM_TESTING_SCHEDULER_SCHEDULE_STRATEGY_H_
#define TENON_SHM_TESTING_SCHEDULER_SCHEDULE_STRATEGY_H_

#include <array>
#include <cstdint>

#include "tenon/shm/testing/scheduler/schedule_random.h"

namespace tenon {

enum class ScheduleStrategyKind { kMixed, kUniform, kPriorities, kStarvation };

// Thread-compatible. A set of threads is a mask with bit t for thread t.
class ScheduleStrategy {
 public:
  static constexpr int kMaxThreads = 8;
  static constexpr int kMaxChangePoints = 8;

  struct Options {
    ScheduleStrategyKind kind = ScheduleStrategyKind::kMixed;
    int change_points = 3;  // Of kPriorities; at most kMaxChangePoints.
    uint32_t steps = 64;    // The approximate length of a schedule.
  };

  // Starts a schedule, which uses `random` until its end.
  void Begin(const Options& options, ScheduleRandom* random);

  // One of `runnable`, which must not be empty. `current` runs now; it need not
  // be among them.
  int Pick(uint32_t runnable, int current) {
    ++step_;
    if ((runnable & (runnable - 1)) == 0) return __builtin_ctz(runnable);
    if ((runnable & ~waiting_) == 0) waiting_ = 0;
    runnable &= ~waiting_;
    switch (kind_) {
      case ScheduleStrategyKind::kPriorities:
        return PickByPriority(runnable, current);
      case ScheduleStrategyKind::kStarvation:
        return PickStarving(runnable);
      default:
        return PickUniform(runnable);
    }
  }

  // `thread` waits for a change by another thread.
  void Waits(int thread);
  // A change: a store, an end.
  void Changed() { waiting_ = 0; }

  ScheduleStrategyKind kind() const { return kind_; }

 private:
  int PickUniform(uint32_t runnable);
  int PickByPriority(uint32_t runnable, int current);
  int PickStarving(uint32_t runnable);
  uint32_t Stretch();

  ScheduleStrategyKind kind_ = ScheduleStrategyKind::kUniform;
  ScheduleRandom* random_ = nullptr;
  uint32_t step_ = 0;
  uint32_t steps_expected_ = 0;
  uint32_t waiting_ = 0;
  // kPriorities.
  std::array<int64_t, kMaxThreads> priority_ = {};
  std::array<uint32_t, kMaxChangePoints> change_at_ = {};
  int changes_ = 0;
  int64_t lowest_ = 0;
  uint32_t in_a_row_ = 0;
  // kStarvation.
  uint32_t starved_ = 0;
  uint32_t stretch_ends_ = 0;
};

// "uniform" and so on.
const char* ToString(ScheduleStrategyKind kind);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_SCHEDULE_STRATEGY_H_
