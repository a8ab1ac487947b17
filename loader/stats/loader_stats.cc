// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/loader_stats.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tenon::loader {
namespace {

// Another process writes them: none may seem to run backwards.
uint64_t Added(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

ProcessStats Added(const ProcessStats& now, const ProcessStats& before) {
  ProcessStats added = now;
  // A worker that was started anew begins at zero.
  if (now.started_ns != before.started_ns) return added;
  added.batches = Added(now.batches, before.batches);
  added.samples = Added(now.samples, before.samples);
  for (size_t s = 0; s < kStages; ++s) {
    added.stages[s] = now.stages[s].Since(before.stages[s]);
  }
  return added;
}

}  // namespace

absl::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kStart:
      return "start";
    case Stage::kWait:
      return "wait";
    case Stage::kLoad:
      return "load";
    case Stage::kCollate:
      return "collate";
    case Stage::kQueue:
      return "queue";
    case Stage::kTake:
      return "take";
    case Stage::kUse:
      return "use";
  }
  return "unknown";
}

uint64_t ProcessStats::TotalNs() const {
  uint64_t total = 0;
  for (size_t s = 0; s < kStages; ++s) {
    if (static_cast<Stage>(s) != Stage::kStart) total += stages[s].total_ns;
  }
  return total;
}

double ProcessStats::ShareOf(Stage s) const {
  const uint64_t total = TotalNs();
  return total == 0
             ? 0
             : static_cast<double>(of(s).total_ns) / static_cast<double>(total);
}

LoaderStats LoaderStats::Since(const LoaderStats& before) const {
  LoaderStats added = *this;
  added.consumer = Added(consumer, before.consumer);
  for (ProcessStats& worker : added.workers) {
    // By number: others may have begun or ended in between.
    const auto old = std::find_if(before.workers.begin(), before.workers.end(),
                                  [&](const ProcessStats& other) {
                                    return other.worker == worker.worker;
                                  });
    if (old != before.workers.end()) worker = Added(worker, *old);
  }
  added.ready_sum = Added(ready_sum, before.ready_sum);
  added.ready_count = Added(ready_count, before.ready_count);
  added.ready = added.ready_count == 0
                    ? 0
                    : static_cast<double>(added.ready_sum) /
                          static_cast<double>(added.ready_count);
  return added;
}

}  // namespace tenon::loader
