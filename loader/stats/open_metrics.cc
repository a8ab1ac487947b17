// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/open_metrics.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/shm/base/time_histogram.h"

namespace tenon::loader {
namespace {

// 1.024 us.
constexpr size_t kFirstBound = 10;

std::string LabelText(absl::string_view value) {
  std::string text = "\"";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else {
      text += byte < 0x20 || byte >= 0x7f ? '?' : c;
    }
  }
  return text + "\"";
}

OpenMetrics::Labels LabelsOf(const LoaderStats& loader,
                             const ProcessStats& process) {
  return {{"pid", absl::StrCat(loader.consumer.pid)},
          {"loader", loader.consumer.loader.ToString()},
          {"dataset", loader.consumer.dataset},
          {"worker",
           process.worker < 0 ? "consumer" : absl::StrCat(process.worker)}};
}

template <typename F>
void ForEachProcess(const std::vector<LoaderStats>& loaders, F&& f) {
  for (const LoaderStats& loader : loaders) {
    f(LabelsOf(loader, loader.consumer), loader.consumer);
    for (const ProcessStats& worker : loader.workers) {
      f(LabelsOf(loader, worker), worker);
    }
  }
}

}  // namespace

void OpenMetrics::Family(absl::string_view name, absl::string_view type,
                         absl::string_view unit, absl::string_view help) {
  name_ = std::string(name);
  type_ = std::string(type);
  absl::StrAppend(&text_, "# TYPE ", name, " ", type, "\n");
  if (!unit.empty()) absl::StrAppend(&text_, "# UNIT ", name, " ", unit, "\n");
  absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n");
}

void OpenMetrics::Add(const Labels& labels, double value) {
  AddLine(type_ == "counter" ? "_total" : "", labels,
          absl::StrFormat("%.17g", value));
}

void OpenMetrics::AddTimes(const Labels& labels, const TimeHistogram& times) {
  uint64_t count = 0;
  for (size_t b = 0; b < TimeHistogram::kBuckets; ++b) {
    count += times.buckets[b];
    const bool is_last = b + 1 == TimeHistogram::kBuckets;
    if (b < kFirstBound) continue;
    Labels with_bound = labels;
    // Times in bucket b are shorter than its bound.
    with_bound.emplace_back(
        "le", is_last
                  ? "+Inf"
                  : absl::StrFormat(
                        "%.9g",
                        static_cast<double>(TimeHistogram::BoundOf(b)) * 1e-9));
    AddLine("_bucket", with_bound, absl::StrCat(count));
  }
  AddLine("_count", labels, absl::StrCat(count));
  AddLine("_sum", labels,
          absl::StrFormat("%.9f", static_cast<double>(times.total_ns) * 1e-9));
}

void OpenMetrics::AddLine(absl::string_view suffix, const Labels& labels,
                          absl::string_view value) {
  std::vector<std::string> pairs;
  for (const auto& [name, text] : labels) {
    pairs.push_back(absl::StrCat(name, "=", LabelText(text)));
  }
  absl::StrAppend(&text_, name_, suffix);
  if (!pairs.empty()) {
    absl::StrAppend(&text_, "{", absl::StrJoin(pairs, ","), "}");
  }
  absl::StrAppend(&text_, " ", value, "\n");
}

std::string OpenMetrics::ToText() const { return text_ + "# EOF\n"; }

void AddLoaders(const std::vector<LoaderStats>& loaders, OpenMetrics& metrics) {
  metrics.Family("tenon_loader_batches", "counter", "",
                 "Batches that a worker made, or the consumer returned.");
  ForEachProcess(loaders, [&](const auto& labels, const ProcessStats& process) {
    metrics.Add(labels, static_cast<double>(process.batches));
  });
  metrics.Family("tenon_loader_samples", "counter", "",
                 "Samples of these batches.");
  ForEachProcess(loaders, [&](const auto& labels, const ProcessStats& process) {
    metrics.Add(labels, static_cast<double>(process.samples));
  });
  metrics.Family("tenon_loader_stage_seconds", "histogram", "seconds",
                 "Time of a stage of a batch.");
  ForEachProcess(
      loaders, [&](OpenMetrics::Labels labels, const ProcessStats& process) {
        labels.emplace_back("stage", "");
        for (size_t s = 0; s < kStages; ++s) {
          if (process.stages[s].count() == 0) continue;
          labels.back().second = std::string(StageName(static_cast<Stage>(s)));
          metrics.AddTimes(labels, process.stages[s]);
        }
      });
  metrics.Family("tenon_loader_ready_batches", "gauge", "",
                 "Batches that are made and not taken.");
  for (const LoaderStats& loader : loaders) {
    for (size_t i = 0; i < loader.workers.size() && i < loader.ready_now.size();
         ++i) {
      metrics.Add(LabelsOf(loader, loader.workers[i]),
                  static_cast<double>(loader.ready_now[i]));
    }
  }
}

}  // namespace tenon::loader
