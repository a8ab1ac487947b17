// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StatsBoard: the counters of a loader, in its consumer: the consumer's own,
// and views of those of the workers.

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

// Ownership: owns the consumer's counters and the views. The counters of a
//   worker that has ended are kept until another one has replaced it.
// Threads: thread-compatible.
// Processes: belongs to the process that made it.
class StatsBoard {
 public:
  // Sets info.loader. Errors: StatsMemory::Create()'s; getentropy()'s.
  static absl::StatusOr<std::unique_ptr<StatsBoard>> Create(StatsInfo info);

  // The consumer's meter.
  StageMeter& meter() { return meter_; }
  const StatsInfo& info() const { return info_; }

  // Sets the view of a worker that has been started, or has replaced another
  // one.
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
