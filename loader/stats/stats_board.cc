// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/stats_board.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/statusor.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stats_memory.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {

absl::StatusOr<std::unique_ptr<StatsBoard>> StatsBoard::Create(StatsInfo info) {
  TENON_ASSIGN_OR_RETURN(info.loader, RandomId::New());
  TENON_ASSIGN_OR_RETURN(StatsMemory memory, StatsMemory::Create(info));
  return absl::WrapUnique(new StatsBoard(std::move(info), std::move(memory)));
}

void StatsBoard::SetWorker(int worker, StatsView view) {
  const auto number = static_cast<size_t>(worker);
  if (workers_.size() <= number) workers_.resize(number + 1);
  workers_[number] = std::move(view);
  meter_.SetTaken(worker, 0);
}

const StatsView* StatsBoard::worker(int number) const {
  const auto at = static_cast<size_t>(number);
  return at < workers_.size() && workers_[at].has_memory() ? &workers_[at]
                                                           : nullptr;
}

LoaderStats StatsBoard::Stats() const {
  std::vector<ParsedStats> workers;
  for (size_t i = 0; i < workers_.size(); ++i) {
    const StatsView& view = workers_[i];
    if (!view.has_memory()) continue;
    auto parsed = ParseStats(CopyStatsWords(view.data(), view.size_bytes()));
    // A worker that overwrites its own has none.
    if (!parsed.ok()) continue;
    // Known here, whatever it has written.
    parsed->process.worker = static_cast<int>(i);
    parsed->process.loader = info_.loader;
    workers.push_back(*std::move(parsed));
  }
  // Written by this process.
  const auto consumer =
      ParseStats(CopyStatsWords(memory_.data(), memory_.size_bytes()));
  return consumer.ok() ? JoinStats(*consumer, std::move(workers), MonotonicNs())
                       : LoaderStats();
}

}  // namespace tenon::loader
