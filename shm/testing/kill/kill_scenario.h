// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KillScenario: a scenario that kill_driver.h runs repeatedly, with a kill of
// another role or at another point in each run.

#ifndef TENON_SHM_TESTING_KILL_KILL_SCENARIO_H_
#define TENON_SHM_TESTING_KILL_KILL_SCENARIO_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"

namespace tenon {

enum class KillMethod {
  kKill,  // SIGKILL.
  kStop,  // SIGSTOP, and SIGCONT later: slow, but alive, and must succeed.
};

// "The process `role` dies when it passes `point` for the `passing`-th time."
struct KillOrder {
  std::string role;
  std::string point;
  uint64_t passing = 1;
};

// One process of the scenario.
struct KillRole {
  std::string name;
  // Runs in a separate forked process. State shared with other roles is made by
  // `prepare`, or sent through Peer::GiveFd(). The body must complete whichever
  // other role is killed, and report inconsistent state (Fail(), EXPECT_...).
  // Waiting for a killed role returns kUnavailable.
  std::function<void(Peer&)> body;
};

struct KillScenario {
  // For the report.
  std::string name;
  // Creates the state of a run, in the process of the test. May be empty.
  std::function<void()> prepare;
  std::vector<KillRole> roles;
  // Checks the state after each run, in a fresh process, when all roles have
  // ended: it must be usable by new processes. `fired` lists the kills; it is
  // empty in runs without one. May be empty.
  std::function<void(const Reporter&, const std::vector<KillOrder>& fired)>
      check;
  // Kills at the crash points whose names begin with this. All that are linked
  // must be reached in some run, by a role or by `check`.
  std::string points;
  // Names in /dev/shm that begin with this are part of the census. Empty: none.
  std::string shm_prefix;

  KillMethod method = KillMethod::kKill;
  // The time that a victim stays stopped, unless the others end before.
  absl::Duration stop_for = absl::Milliseconds(20);
  // 2: in each run with one victim, another role is killed as well, at each
  // point that it passes in such a run: a reclaimer while it reclaims.
  size_t victims = 1;
  // The number of repetitions of each run.
  size_t repeat = 1;
  // A role or check that takes longer is killed and counts as failed.
  absl::Duration watchdog = absl::Seconds(20);
  // A defect may cost a watchdog in each run: so the matrix stops at this
  // number of failures, and in any case after this number of runs.
  size_t max_failures = 10;
  size_t max_runs = 20000;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_KILL_SCENARIO_H_
