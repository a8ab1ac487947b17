// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KillAtEveryInstruction: kills a process before every machine instruction of a
// region, each time a fresh one, and looks at what it leaves.
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
// What is stepped is what the compiler made of the code: build it with -O2.

#ifndef TENON_SHM_TESTING_TRACE_SINGLE_STEPPER_H_
#define TENON_SHM_TESTING_TRACE_SINGLE_STEPPER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/trace/step_report.h"

namespace tenon {

enum class StepFate {
  kKill,   // SIGKILL, at each position a fresh victim.
  kPause,  // The check runs while the victim stands still; then it goes on and
           // must end well. Finds what others may meet half done.
};

enum class StepMoment {
  kKilled,  // The victim has been killed at this position, and reaped.
  kPaused,  // It stands at this position (kPause).
  kEnded,   // It got to its end: in the first run, and after each pause.
};

// Where the victim is, for the check.
struct StepPosition {
  StepMoment moment = StepMoment::kEnded;
  // How many instructions of the region it has executed, and where the next one
  // is. For kEnded: where it was paused, or all of them and 0.
  uint64_t index = 0;
  uint64_t address = 0;
  // The victim itself. Not null; readable once it has ended.
  const PidFd* victim = nullptr;
};

struct StepScenario {
  std::string name;
  // Makes the world anew for each position, in the calling process.
  std::function<void()> prepare;
  // Runs in a forked process, and marks one region (region.h). Only its main
  // thread is stepped; an own thread or child of it runs on by itself. It must
  // not do exec() within the region, and take the same path each time.
  std::function<void(const Reporter&)> victim;
  // Says whether the world is whole, in the calling process; what it returns
  // fails the position. May repair what is a documented exception.
  std::function<absl::Status(const StepPosition&)> check;
  // A name in /dev/shm with this prefix that is left after the check fails the
  // position and is removed. Empty: none are looked for.
  std::string shm_prefix;
  StepFate fate = StepFate::kKill;

  // Which positions: every `stride`-th (0: none of these), `random`
  // different ones, drawn by `seed`, and those just before and after system
  // calls. Each position counts once.
  uint64_t stride = 1;
  size_t random = 0;
  uint64_t seed = 1;
  bool around_syscalls = false;
  // Of these, only positions that so many stops of the victim lead to; 0: all.
  // What is left out then is the later rounds of long loops, and of
  // rep-prefixed instructions. The report says how many there were.
  uint64_t max_stops = 0;

  // How often the region is recorded; the shortest time counts. More than once
  // where a busy machine may have a run take a way that others do not.
  size_t first_runs = 1;
  // Without them each position is reached by steps alone.
  bool use_breakpoints = true;
  absl::Duration watchdog = absl::Seconds(20);  // Of each victim.
  // Whether the test may have threads when it forks a victim: one_thread.h.
  bool may_have_threads = false;
  // Then it is given up, which is a failure.
  size_t max_failures = 10;
  absl::Duration budget = absl::Minutes(10);
};

// Records the region once by single steps, then goes to each position by the
// shortest way: a debug register stops the victim at an address it comes by
// seldom, and steps do the rest. Where there is no debug register n positions
// cost n*n/2 steps.
// Blocks: some 20 us a stop and 0.2 ms a position, plus prepare and check. Pins
// the calling thread to one core meanwhile. From one thread only.
// Errors: what CanTrace() says; kAborted if the first run does not get through
// the region; kFailedPrecondition if there is no region.
absl::StatusOr<StepReport> KillAtEveryInstruction(const StepScenario& scenario);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_SINGLE_STEPPER_H_
