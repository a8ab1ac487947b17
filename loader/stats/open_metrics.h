// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OpenMetrics: counters as text for Prometheus and what else reads OpenMetrics
// 1.0, such as by a file that node_exporter collects.
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

  // The samples that follow are of this family, until the next one. Each name
  // once. `type` is "counter", "gauge" or "histogram"; with a `unit` the name
  // must end with "_" and it.
  void Family(absl::string_view name, absl::string_view type,
              absl::string_view unit, absl::string_view help);
  // A gauge, or the _total of a counter.
  void Add(const Labels& labels, double value);
  // Of a family of histograms in seconds. Buckets below 1 us are one.
  void AddTimes(const Labels& labels, const TimeHistogram& times);

  // Ends with "# EOF".
  std::string ToText() const;

 private:
  void AddLine(absl::string_view suffix, const Labels& labels,
               absl::string_view value);

  std::string text_;
  std::string name_;
  std::string type_;
};

// The families tenon_loader_*: batches, samples, stages, batches that are
// ready; labels: pid of the consumer, loader, dataset, worker ("consumer", "0",
// "1", ...).
void AddLoaders(const std::vector<LoaderStats>& loaders, OpenMetrics& metrics);

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_OPEN_METRICS_H_
