// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The facts about machine and build without which figures have no meaning.

#ifndef TENON_BENCHMARKS_HARNESS_MACHINE_H_
#define TENON_BENCHMARKS_HARNESS_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/shm/testing/two_cores.h"

namespace tenon::benchmarks {

struct MachineFacts {
  std::string processor;
  std::string kernel;
  std::string compiler;
  bool optimised = false;  // Built with -c opt.
  int usable_cores = 0;
  uint64_t memory_bytes = 0;
  std::vector<int> cores;     // On which processes run; of one core: empty.
  bool share_a_core = false;  // Their hardware threads do.
  double load_1m = 0;         // The load average, before the first row.
  std::string begun_at;       // UTC, RFC 3339.
};

MachineFacts FactsOfThisMachine(const TwoCores& cores);

// The commit of the checkout from which `bazel run` has started this program,
// with "-dirty" if it was changed; "unknown" elsewhere.
std::string CommitOfThisBuild();

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HARNESS_MACHINE_H_
