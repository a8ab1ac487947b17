// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OpenMetrics: counters as text of OpenMetrics 1.0, for Prometheus and other
// readers, or for a file that node_exporter collects.
//
//   OpenMetrics metrics;
//   AddLoaders({loader.Stats()}, metrics);
//   std::cout << metrics.ToText();

#ifndef TENON_LOADER_STATS_OPEN_METRICS_H_
#define TENON_LOADER_STATS_OPEN_METRICS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/shm/base/time_histogram.h"

namespace tenon::loader {

// Ownership: a value. Threads: thread-compatible.
class OpenMetrics {
 public:
  using Labels = std::vector<std::pair<std::string, std::string>>;

  // Begins a family, to which Add() and AddTimes() add from now on. Each name
  // may begin one family. `type` is "counter", "gauge" or "histogram". A name
  // with a `unit` must end with "_UNIT". `help` has no backslash and no
  // newline.
  void Family(absl::string_view name, absl::string_view type,
              absl::string_view unit, absl::string_view help);
  // Adds a gauge, or the _total of a counter.
  void Add(const Labels& labels, double value);
  // Adds a histogram, in seconds. Buckets below 1 us are one.
  void AddTimes(const Labels& labels, const TimeHistogram& times);

  // The text, which ends with "# EOF".
  std::string ToText() const;

 private:
  void AddLine(absl::string_view suffix, const Labels& labels,
               absl::string_view value);

  std::string text_;
  std::string name_;
  std::string type_;
};

// Adds the families tenon_loader_*: batches, samples, stages, finished batches.
// Labels: pid of the consumer, loader, dataset, worker ("consumer", "0", "1",
// ...).
void AddLoaders(const std::vector<LoaderStats>& loaders, OpenMetrics& metrics);

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_OPEN_METRICS_H_
