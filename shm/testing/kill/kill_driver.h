// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RunKillMatrix: kills each role of a scenario at each pass of each crash
// point, one run for each, and checks that the other roles continue and that
// shared state is consistent.
//
//   KillScenario scenario;
//   scenario.name = "record";
//   scenario.points = "record.";
//   scenario.prepare = [&] { record.Reset(); };
//   scenario.roles = {
//       {"writer", [&](Peer& self) { record.Write(2); self.Step("written"); }},
//       {"reader", [&](Peer& self) {
//          self.Await("writer", "written").IgnoreError();  // May be killed.
//          EXPECT_THAT(record.Read(), AnyOf(1, 2));
//        }}};
//   scenario.check = [&](const Reporter&, const std::vector<KillOrder>&) {
//     EXPECT_THAT(record.Read(), AnyOf(1, 2));
//   };
//   const KillReport report = RunKillMatrix(scenario);
//   EXPECT_TRUE(report.ok()) << report.ToString();
//
// A role's order of events must be deterministic, or the n-th pass differs from
// run to run. For kills between crash points, see single_stepper.h.

#ifndef TENON_SHM_TESTING_KILL_KILL_DRIVER_H_
#define TENON_SHM_TESTING_KILL_KILL_DRIVER_H_

#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"

namespace tenon {

// First a run without kills. Then for each role and each point that it passed:
// n = 1, 2, ..., until the role completes without passing it n times. Each run
// is fresh: `prepare`, forked roles, `check`. A run fails if
// - a role or the check reports a failure, ends other than by exit code 0, or
//   takes longer than the watchdog (only the victim may, and must, be killed),
// - a process is left running, or the census of the test's process differs from
//   that before: a name in /dev/shm, a descriptor, a mapping, a child.
//   Leftovers are removed, so that they count once.
//
// Blocks: about 1 ms a run with two roles, and never longer than two watchdogs
// a run. For a test's main thread; needs no rights. With `victims` = 2 orders
// are combined for different roles.
KillReport RunKillMatrix(const KillScenario& scenario);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_KILL_DRIVER_H_
