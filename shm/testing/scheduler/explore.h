// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Explore: runs a body under many schedules, one for each seed, until a check
// fails.
//
//   const ExploreResult result =
//       Explore({.schedules = ScheduleCount(100000)}, [](Schedule& s) {...});
//   EXPECT_TRUE(result.ok) << result.report;
//
// The report of a failure contains the seed and every operation up to it. To
// see that schedule again, run the one test with TENON_SCHEDULE_SEED=<seed>:
// its trace goes to stderr. A seed means the same schedule as long as the body
// and the options are the same.

#ifndef TENON_SHM_TESTING_SCHEDULER_EXPLORE_H_
#define TENON_SHM_TESTING_SCHEDULER_EXPLORE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "tenon/shm/testing/scheduler/schedule.h"

namespace tenon {

struct ExploreOptions {
  uint64_t first_seed = 1;
  uint64_t schedules = 10000;
  ScheduleOptions schedule = {};
};

struct ExploreResult {
  bool ok = true;
  uint64_t schedules = 0;  // Schedules run, including the failed one.
  uint64_t steps = 0;      // Scheduling points in all of them.
  uint64_t seed = 0;       // The failed or replayed seed.
  std::string failure;     // One line; empty if ok.
  std::string trace;       // The operations of that seed, a line each.
  std::string report;      // Seed, strategy, failure and trace.
};

// Runs seeds first_seed, first_seed + 1, ... and stops at the first failure. If
// the environment has TENON_SCHEDULE_SEED, runs that one instead, and writes
// its report to stderr.
[[nodiscard]] ExploreResult Explore(const ExploreOptions& options,
                                    absl::FunctionRef<void(Schedule&)> body);

// Runs one seed and returns its trace, whether it fails or not.
[[nodiscard]] ExploreResult Replay(const ScheduleOptions& options,
                                   uint64_t seed,
                                   absl::FunctionRef<void(Schedule&)> body);

// The number of schedules to run: `in_ci` times the environment's
// TENON_SCHEDULE_FACTOR (1 if it is not set), and under a sanitizer a twentieth
// of that, but at least 1000 or `in_ci`, whichever is less.
uint64_t ScheduleCount(uint64_t in_ci);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SCHEDULER_EXPLORE_H_
