// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StatsBoard: the counters of a loader, in its consumer: its own, and views of
// its workers'.

#ifndef TENON_LOADER_STATS_STATS_BOARD_H_
#define TENON_LOADER_STATS_STATS_BOARD_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/stats/stats_memory.h"

namespace tenon::loader {

// Ownership: keeps the counters of workers that have ended, until another one
//   has taken their place.
// Threads: thread-compatible. Processes: of the one that made it.
class StatsBoard {
 public:
  // Sets info.loader. Errors: StatsMemory::Create()'s; getentropy()'s.
  static absl::StatusOr<std::unique_ptr<StatsBoard>> Create(StatsInfo info);

  // Of the consumer.
  StageMeter& meter() { return meter_; }
  const StatsInfo& info() const { return info_; }

  // A worker has been started, also in place of another one.
  void SetWorker(int worker, StatsView view);
  // Null before SetWorker().
  const StatsView* worker(int number) const;

  LoaderStats Stats() const;

 private:
  StatsBoard(StatsInfo info, StatsMemory memory)
      : info_(std::move(info)),
        memory_(std::move(memory)),
        meter_(memory_.meter()) {}

  const StatsInfo info_;
  StatsMemory memory_;
  StageMeter meter_;
  std::vector<StatsView> workers_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_STATS_BOARD_H_
