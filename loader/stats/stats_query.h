// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueryLoaders: the counters of the loaders of all processes of this user.
//
//   TENON_ASSIGN_OR_RETURN(const LoaderQuery query, QueryLoaders());
//   for (const LoaderStats& loader : query.loaders) {
//     std::cout << MakeReport(loader).verdict << "\n";
//   }
//
// There is no registry, and the queried processes take no part: their counters
// are found as open files in /proc, and read.

#ifndef TENON_LOADER_STATS_STATS_QUERY_H_
#define TENON_LOADER_STATS_STATS_QUERY_H_

#include <sys/types.h>

#include <vector>

#include "absl/status/statusor.h"
#include "tenon/loader/stats/loader_stats.h"

namespace tenon::loader {

struct LoaderQuery {
  // By pid of the consumer, then by age, oldest first; without events. Pids are
  // those of this process's /proc.
  std::vector<LoaderStats> loaders;
  // Processes of this user that could not be inspected.
  std::vector<pid_t> hidden;
};

// Inspects every process once, and waits for none. At most 4096 memories of
// counters are read, some 7 KiB of each. A hostile process of this user can
// show any values for its own loaders, and pass for a worker of another one.
// Errors: kNotFound if there is no /proc; kResourceExhausted at a limit of
// descriptors of this process.
absl::StatusOr<LoaderQuery> QueryLoaders();

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_STATS_QUERY_H_
