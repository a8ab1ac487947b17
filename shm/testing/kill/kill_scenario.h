// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KillScenario: what kill_driver.h runs over and over, each time with somebody
// killed somewhere else.

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
  kStop,  // SIGSTOP, and SIGCONT later: slow, but alive, and must end well.
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
  // Runs in a forked process of its own. What it shares with the other roles
  // was made by `prepare`, or goes through Peer::GiveFd(). It must get through
  // whoever else is killed, and report (Fail(), EXPECT_...) what it finds
  // broken. When it waits for one that has been killed, it sees kUnavailable.
  std::function<void(Peer&)> body;
};

struct KillScenario {
  // For the report.
  std::string name;
  // Makes the world of one run anew, in the process of the test. May be empty.
  std::function<void()> prepare;
  std::vector<KillRole> roles;
  // Looks at the world after each run, in a fresh process, when all roles have
  // ended: whoever comes next has to find it whole. `fired` says who was killed
  // where; it is empty in the runs in which everybody lives. May be empty.
  std::function<void(const Reporter&, const std::vector<KillOrder>& fired)>
      check;
  // Kills at the crash points whose names begin with this. All that are linked
  // must be reached in some run, by a role or by `check`.
  std::string points;
  // Names in /dev/shm that begin with this are part of the census. Empty: none.
  std::string shm_prefix;

  KillMethod method = KillMethod::kKill;
  // How long a stopped victim stays so, if the others have not ended before.
  absl::Duration stop_for = absl::Milliseconds(20);
  // 2: in each run with one victim, another role is killed as well, at each
  // point that it passes in such a run: a reclaimer while it reclaims.
  size_t victims = 1;
  // How often each run is repeated.
  size_t repeat = 1;
  // A role or check that takes longer is killed, and has failed.
  absl::Duration watchdog = absl::Seconds(20);
  // What is broken may cost a watchdog in each run: so the matrix is given up
  // at this number of failures, and in any case after this number of runs.
  size_t max_failures = 10;
  size_t max_runs = 20000;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_KILL_SCENARIO_H_
