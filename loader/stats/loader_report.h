// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoaderReport: whether the loader or its consumer is the bottleneck, and
// advice.
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
  kUnknown,   // Fewer than 8 batches.
  kConsumer,  // The consumer waits for less than a twentieth of its time.
  kLoader,
};

// "unknown", "consumer", "loader".
absl::string_view BottleneckName(Bottleneck bottleneck);

// Ownership: a value. Threads: thread-compatible.
struct LoaderReport {
  LoaderStats stats;
  Bottleneck bottleneck = Bottleneck::kUnknown;
  // The share of the consumer's time in which it waits for batches, the first
  // ones of epochs left out; without workers, in which it makes them. 0 to 1.
  double waiting = 0;
  // The stage that takes most of the workers' time for batches.
  Stage slowest = Stage::kLoad;
  // Workers whose batches take more than twice as long as those of the median
  // worker.
  std::vector<int> slow_workers;
  // Sentences: the bottleneck, and what to change, most effective first.
  std::string verdict;
  std::vector<std::string> advice;

  // Lines: verdict, advice, and a table of the stages of each process.
  std::string ToText() const;
  // {"bottleneck": "loader", "advice": [...], "consumer": {...}, ...}: one line
  // of ASCII; times in nanoseconds.
  std::string ToJson() const;
};

// The report on `stats`, of the loader's life or an interval (Since()). Pure.
LoaderReport MakeReport(const LoaderStats& stats);

// "31.2 ms", "850 ns". Pure.
std::string FormatNs(double ns);

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_LOADER_REPORT_H_
