// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon top`: loaders, their workers, the stages these are in, and their
// blocks, over a short time.

#ifndef TENON_TOOLS_LIVE_TOP_H_
#define TENON_TOOLS_LIVE_TOP_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stats_query.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/tools/cli/json.h"

namespace tenon::tools {

struct TopReading {
  loader::LoaderQuery loaders;
  LedgerReport ledger;
  // Of TopSince(): the same loaders since their beginning.
  std::vector<loader::LoaderStats> whole = {};
};

// Errors: QueryLoaders()'s and QueryLedger()'s.
absl::StatusOr<TopReading> ReadTop();

// What `now` has added to `before`; of loaders that are new, all. The times of
// stages include the part of the current one. Pure.
TopReading TopSince(const TopReading& now, const TopReading& before);

// Per loader: a line, what to change, and a line for each process, of what was
// added in `seconds`. Or a line that says that there are no loaders. Of `width`
// columns (0: any). Pure.
std::string TopText(const TopReading& added, double seconds, size_t width = 0);

// {"seconds": 1.0, "loaders": [...], "hidden_pids": [...]}. Pure.
Json TopJson(const TopReading& added, double seconds);

// OpenMetrics 1.0 of loaders, arenas and queues.
absl::StatusOr<std::string> MetricsText();

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_TOP_H_
