// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KillReport: the results of a kill matrix, as values and as a table.
//
//   kill matrix 'record': 7 runs, 4 kills, 0 failures, 21ms
//   point                    writer       reader
//   record.first_stored      2 kills      -
//   record.second_stored     2 kills      -

#ifndef TENON_SHM_TESTING_KILL_KILL_REPORT_H_
#define TENON_SHM_TESTING_KILL_KILL_REPORT_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tenon {

struct KillFailure {
  std::string role;   // The victim; empty without a kill.
  std::string point;  // The crash point; empty without a kill.
  std::string where;  // All of the plan, in words.
  std::string what;
};

struct KillReport {
  struct Cell {
    // Runs in which this role was killed (stopped) at this point.
    size_t kills = 0;
    size_t failures = 0;  // Of these runs.
  };

  // No failure, all points reached, and at least one kill.
  bool ok() const;
  std::string ToString() const;

  std::string scenario;
  std::vector<std::string> roles;
  std::map<std::string, std::map<std::string, Cell>> table;  // Point, role.
  std::vector<std::string> unreached;  // Points that no run has passed.
  std::vector<KillFailure> failures;
  std::map<std::string, size_t> notes;  // Reporter::Note(), over all runs.
  size_t runs = 0;
  size_t kills = 0;
  bool given_up = false;  // At max_failures or max_runs.
  absl::Duration time;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_KILL_REPORT_H_
