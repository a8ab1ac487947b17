// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoaderReport: whether the loader or its consumer is the bottleneck, and what
// to change.
//
//   std::cout << photos->Report().ToText();

#ifndef TENON_LOADER_STATS_LOADER_REPORT_H_
#define TENON_LOADER_STATS_LOADER_REPORT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tenon/loader/stats/loader_stats.h"

namespace tenon::loader {

enum class Bottleneck {
  kUnknown,   // Too few batches.
  kConsumer,  // It waits for less than a twentieth of its time.
  kLoader,
};

// "unknown", "consumer", "loader".
absl::string_view BottleneckName(Bottleneck bottleneck);

// Ownership: a value. Threads: thread-compatible.
struct LoaderReport {
  LoaderStats stats;
  Bottleneck bottleneck = Bottleneck::kUnknown;
  // The share of its time that the consumer waits for batches, without the
  // first batches of epochs; without workers, that it makes them. 0 to 1.
  double waiting = 0;
  // The stage that takes most of the workers' time for batches.
  Stage slowest = Stage::kLoad;
  // Workers whose batches take more than twice as long as the others'.
  std::vector<int> slow_workers;
  // A sentence each: what is the case, and what to change, most effective
  // first.
  std::string verdict;
  std::vector<std::string> advice;

  // Some lines: the above, and a table of all stages.
  std::string ToText() const;
  // {"bottleneck": "loader", "advice": [...], "consumer": {...}, ...}: one line
  // of ASCII; times in nanoseconds.
  std::string ToJson() const;
};

// Of what `stats` counts: a whole life, or LoaderStats::Since(). Pure.
LoaderReport MakeReport(const LoaderStats& stats);

// "31.2 ms", "850 ns". Pure.
std::string FormatNs(double ns);

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_LOADER_REPORT_H_
