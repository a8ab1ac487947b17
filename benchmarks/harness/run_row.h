// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RunRow: measures the subjects of a row in turns.

#ifndef TENON_BENCHMARKS_HARNESS_RUN_ROW_H_
#define TENON_BENCHMARKS_HARNESS_RUN_ROW_H_

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/benchmarks/harness/turns.h"
#include "tenon/shm/testing/two_cores.h"

namespace tenon::benchmarks {

struct RunOptions {
  // For each row: it ends earlier once each distance has that many turns, and
  // goes on for up to ten times as long while none was kept.
  absl::Duration time = absl::Seconds(10);
  size_t turns = 51;
  // Lowers Row::count, for runs whose figures do not matter.
  int most_in_a_turn = std::numeric_limits<int>::max();
  double near_below_ns = 250;
};

struct RowResult {
  enum Status { kMeasured, kSkipped, kFailed };
  struct Subject {
    std::string name;
    std::string missing;  // The reason; empty if it is present.
    std::string failure;  // Why it could not be measured.
  };

  Row row;
  Status status = kMeasured;
  std::string reason;  // Of any other status.
  std::vector<Subject> subjects;
  Turns turns{TurnRules()};
};

// The groups of turns that a row's report has.
std::vector<Group> GroupsOf(const Row& row);

// Skipped where there is one core; failed if waiters that should sleep never
// did, or if no turn could be kept. Forks: from one thread.
RowResult RunRow(const Row& row, const TwoCores& cores,
                 const RunOptions& options);

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HARNESS_RUN_ROW_H_
