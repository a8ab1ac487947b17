// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KillRunner: one run of a KillScenario, for kill_driver.h.

#ifndef TENON_SHM_TESTING_KILL_KILL_RUN_H_
#define TENON_SHM_TESTING_KILL_KILL_RUN_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/crash_watch.h"
#include "tenon/shm/testing/kill/kill_scenario.h"

namespace tenon {

// The result of one run.
struct KillRun {
  std::vector<KillOrder> fired;  // The executed orders of the plan.
  std::vector<std::string> failures;
  std::map<std::string, size_t> notes;
  // The passes of each point, by role; those of `check` under "".
  std::map<std::string, std::map<std::string, uint64_t>> passed;
};

// Ownership: refers to `scenario`. While it lives, orphans of the calling
//   process's children are reparented to this process (PR_SET_CHILD_SUBREAPER).
// Threads: thread-compatible; best in a process with one thread, as it forks.
class KillRunner {
 public:
  explicit KillRunner(const KillScenario& scenario);
  ~KillRunner();

  // Runs it once. At most one order for each role. When this returns, all
  // processes that it started have ended, and all new names of the prefix are
  // removed.
  KillRun Run(const std::vector<KillOrder>& plan);

 private:
  // One role of the present run.
  struct Player {
    ForkedChild child;
    pid_t pid;
    Deadline resume = Deadline::Never();  // When to resume a stopped player.
  };

  absl::Status ForkRoles(const std::vector<KillOrder>& plan);
  absl::Status RunRoles(const std::vector<KillOrder>& plan, KillRun& run);
  absl::Status WaitForRoles(bool may_stop);
  void ResumeStopped();
  void CheckEnd(size_t role, KillRun& run);
  void Check(KillRun& run);
  void CountPassings(KillRun& run) const;

  const KillScenario& scenario_;
  std::vector<PassingCounts> counts_;  // Of each role, then that of the check.
  std::vector<Player> players_;        // In the order of the roles.
  int was_subreaper_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_KILL_RUN_H_
