// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KillAtEveryInstruction: kills a process before every machine instruction of a
// region, each time a fresh one, and checks the state it leaves.
//
//   if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
//   StepScenario scenario;
//   scenario.name = "record write";
//   scenario.prepare = [&] { record->Reset(); };
//   scenario.victim = [&](const Reporter&) {
//     BeginRegion();
//     record->Write(2);
//     EndRegion();
//   };
//   scenario.check = [&](const StepPosition&) { return record->Check(); };
//   TENON_ASSERT_OK_AND_ASSIGN(StepReport report,
//                              KillAtEveryInstruction(scenario));
//   EXPECT_TRUE(report.ok()) << report.ToString();
//
// It steps through the compiled code: build it with -O2.

#ifndef TENON_SHM_TESTING_TRACE_SINGLE_STEPPER_H_
#define TENON_SHM_TESTING_TRACE_SINGLE_STEPPER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/trace/step_report.h"

namespace tenon {

enum class StepFate {
  kKill,  // SIGKILL, at each position a fresh victim.
  // The check runs while the victim is stopped; then the victim continues and
  // must succeed. Finds intermediate states that other processes may see.
  kPause,
};

enum class StepMoment {
  kKilled,  // The victim has been killed at this position, and reaped.
  kPaused,  // It is stopped at this position (kPause).
  kEnded,   // It has completed: in the first runs, and after each pause.
};

// Where the victim is, for the check.
struct StepPosition {
  StepMoment moment = StepMoment::kEnded;
  // The number of executed instructions of the region, and the address of the
  // next one. For kEnded: those of the pause, or the total and 0.
  uint64_t index = 0;
  uint64_t address = 0;
  // The victim itself. Not null; readable once it has ended.
  const PidFd* victim = nullptr;
};

struct StepScenario {
  std::string name;
  // Creates the state for each position, in the calling process.
  std::function<void()> prepare;
  // Runs in a forked process, and marks one region (region.h). Only its main
  // thread is stepped; other threads and children of it run freely. It must not
  // call exec() within the region, and must take the same path each time.
  std::function<void(const Reporter&)> victim;
  // Checks the state, in the calling process; an error fails the position. May
  // repair documented exceptions.
  std::function<absl::Status(const StepPosition&)> check;
  // A name in /dev/shm with this prefix that is left after the check fails the
  // position and is removed. Empty: not checked.
  std::string shm_prefix;
  StepFate fate = StepFate::kKill;

  // Which positions: every `stride`-th (0: none of these), `random`
  // different ones, drawn by `seed`, and those just before and after system
  // calls. Each position counts once.
  uint64_t stride = 1;
  size_t random = 0;
  uint64_t seed = 1;
  bool around_syscalls = false;
  // Of these, only positions that the victim reaches in at most this many
  // stops; 0: all. This excludes later iterations of long loops and of
  // rep-prefixed instructions. The report counts the excluded ones.
  uint64_t max_stops = 0;

  // The number of recordings of the region; the shortest counts. A victim is a
  // copy of the calling process, whose allocator has other free blocks before
  // the first prepare() and check() than after them: the first path may be one
  // that no other victim takes. On a starved machine another may be rare, too.
  size_t first_runs = 2;
  // If false, each position is reached by steps alone.
  bool use_breakpoints = true;
  absl::Duration watchdog = absl::Minutes(2);  // Of each victim.
  // Whether the test may have threads at the fork of a victim: one_thread.h.
  bool may_have_threads = false;
  // The run stops, and fails, at this number.
  size_t max_failures = 10;
  absl::Duration budget = absl::Minutes(10);
};

// Records the region by single steps, then reaches each position by the
// shortest route: a debug register stops the victim at a rarely executed
// address, and single steps do the rest. A victim that takes another path is
// replaced by one that is stepped from the last position that had been reached
// so. Without debug registers n positions cost n*n/2 steps. Blocks: some 20 us
// a stop and 0.2 ms a position, plus prepare and check. Pins the calling thread
// to one core meanwhile. From one thread only.
// Errors: CanTrace()'s; kAborted if the first run does not complete the region;
// kFailedPrecondition if there is no region.
absl::StatusOr<StepReport> KillAtEveryInstruction(const StepScenario& scenario);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_SINGLE_STEPPER_H_
