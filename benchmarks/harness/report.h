// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Report: the results of rows, as a table and as JSON. The names and members of
// the JSON are stable: benchmarks/README.md lists them.

#ifndef TENON_BENCHMARKS_HARNESS_REPORT_H_
#define TENON_BENCHMARKS_HARNESS_REPORT_H_

#include <string>
#include <vector>

#include "tenon/benchmarks/harness/machine.h"
#include "tenon/benchmarks/harness/run_row.h"

namespace tenon::benchmarks {

struct Report {
  std::string commit;
  MachineFacts machine;
  RunOptions options;
  std::vector<RowResult> rows;
};

// One row, for a terminal.
std::string TableOf(const RowResult& row, const RunOptions& options);

// Indented, with a newline at the end.
std::string JsonOf(const Report& report);

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HARNESS_REPORT_H_
