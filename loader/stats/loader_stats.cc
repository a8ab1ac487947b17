// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/loader_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "absl/strings/string_view.h"

namespace tenon::loader {
namespace {

// Another process writes them: none may seem to run backwards.
uint64_t Added(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

StageTimes Added(const StageTimes& now, const StageTimes& before) {
  StageTimes added = now;
  for (size_t b = 0; b < StageTimes::kBuckets; ++b) {
    added.buckets[b] = Added(now.buckets[b], before.buckets[b]);
  }
  added.total_ns = Added(now.total_ns, before.total_ns);
  return added;
}

ProcessStats Added(const ProcessStats& now, const ProcessStats& before) {
  ProcessStats added = now;
  // A worker that was started anew begins at zero.
  if (now.started_ns != before.started_ns) return added;
  added.batches = Added(now.batches, before.batches);
  added.samples = Added(now.samples, before.samples);
  for (size_t s = 0; s < kStages; ++s) {
    added.stages[s] = Added(now.stages[s], before.stages[s]);
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

size_t StageTimes::BucketOf(uint64_t ns) {
  return std::min(static_cast<size_t>(std::bit_width(ns)), kBuckets - 1);
}

uint64_t StageTimes::count() const {
  return std::accumulate(buckets.begin(), buckets.end(), uint64_t{0});
}

double StageTimes::MeanNs() const {
  const uint64_t times = count();
  return times == 0
             ? 0
             : static_cast<double>(total_ns) / static_cast<double>(times);
}

uint64_t StageTimes::QuantileNs(double q) const {
  const uint64_t times = count();
  if (times == 0) return 0;
  const auto rank = static_cast<uint64_t>(
      std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(times)));
  uint64_t seen = 0;
  for (size_t b = 0; b < kBuckets; ++b) {
    seen += buckets[b];
    if (buckets[b] > 0 && seen >= rank) {
      return b + 1 == kBuckets ? longest_ns : std::min(BoundOf(b), longest_ns);
    }
  }
  return longest_ns;
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
