// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/loader_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/stats/json_text.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/shm/base/time_histogram.h"

namespace tenon::loader {
namespace {

constexpr uint64_t kFewBatches = 8;
// A consumer that waits for less than this share is the bottleneck.
constexpr double kHardlyWaits = 0.05;
// Workers that are busy for less than this share could make more batches.
constexpr double kIdle = 0.5;
// The share for which a well-used worker is busy.
constexpr double kWellUsed = 0.8;
constexpr double kSlowWorker = 2;
// The quantile 0.99 of a stage, as a multiple of its median.
constexpr double kUneven = 8;
// The share of a loader's life that goes to first batches of epochs.
constexpr double kSlowStarts = 0.2;

constexpr std::array<Stage, 3> kMaking = {Stage::kLoad, Stage::kCollate,
                                          Stage::kQueue};

uint64_t MakingNs(const ProcessStats& process) {
  uint64_t ns = 0;
  for (const Stage stage : kMaking) ns += process.of(stage).total_ns;
  return ns;
}

// Of a process that is in its first batch: so far.
double PerBatch(double ns, double batches) {
  return ns / std::max(batches, 1.0);
}
double PerBatch(uint64_t ns, uint64_t batches) {
  return PerBatch(static_cast<double>(ns), static_cast<double>(batches));
}

std::string Percent(double share) {
  return absl::StrFormat("%.0f%%", share * 100);
}

// The workers together; 512 fill 64 bits with nanoseconds in 14 months.
struct Together {
  double batches = 0;
  double making_ns = 0;
  double total_ns = 0;
  std::array<double, kStages> ns = {};

  double busy() const { return total_ns == 0 ? 0 : making_ns / total_ns; }
};

Together Sum(const std::vector<ProcessStats>& workers) {
  Together all;
  for (const ProcessStats& worker : workers) {
    all.batches += static_cast<double>(worker.batches);
    all.making_ns += static_cast<double>(MakingNs(worker));
    all.total_ns += static_cast<double>(worker.TotalNs());
    for (size_t s = 0; s < kStages; ++s) {
      all.ns[s] += static_cast<double>(worker.stages[s].total_ns);
    }
  }
  return all;
}

Stage SlowestOf(const std::array<double, kStages>& ns) {
  return *std::max_element(
      kMaking.begin(), kMaking.end(), [&](Stage a, Stage b) {
        return ns[static_cast<size_t>(a)] < ns[static_cast<size_t>(b)];
      });
}

std::vector<int> SlowWorkers(const std::vector<ProcessStats>& workers) {
  std::vector<double> each;
  for (const ProcessStats& worker : workers) {
    if (worker.batches >= 2) {
      each.push_back(PerBatch(MakingNs(worker), worker.batches));
    }
  }
  std::vector<int> slow;
  if (each.size() < 2) return slow;
  std::sort(each.begin(), each.end());
  const double median = each[(each.size() - 1) / 2];
  for (const ProcessStats& worker : workers) {
    if (worker.batches >= 2 &&
        PerBatch(MakingNs(worker), worker.batches) > kSlowWorker * median) {
      slow.push_back(worker.worker);
    }
  }
  return slow;
}

// The longest quantile 0.99 of a stage as a multiple of its median.
double Unevenness(const LoaderStats& stats, Stage stage) {
  double most = 1;
  for (const ProcessStats& worker : stats.workers) {
    const TimeHistogram& times = worker.of(stage);
    if (times.count() < 20) continue;
    most = std::max(
        most, static_cast<double>(times.QuantileNs(0.99)) /
                  std::max(1.0, static_cast<double>(times.QuantileNs(0.5))));
  }
  return most;
}

std::string AboutStage(Stage stage) {
  switch (stage) {
    case Stage::kLoad:
      return "make the dataset's Get() cheaper, or write all samples of a "
             "batch at once in GetBatch()";
    case Stage::kCollate:
      return "make collation cheaper: a field of one shape needs none, and "
             "fewer or shorter fields of other shapes need less";
    default:
      return "release batches sooner, or lower prefetch: workers wait for "
             "memory for their batches";
  }
}

void AdviseMoreWorkers(LoaderReport& report, const Together& all) {
  const LoaderStats& stats = report.stats;
  const ProcessStats& consumer = stats.consumer;
  const double batch_ns = PerBatch(all.making_ns, all.batches);
  const double own_ns = PerBatch(
      consumer.of(Stage::kUse).total_ns + consumer.of(Stage::kTake).total_ns,
      consumer.batches);
  const int most = std::max(stats.cores, 1);
  const int wanted =
      own_ns <= 0
          ? most + 1
          : static_cast<int>(std::min(std::ceil(batch_ns / own_ns), 10'000.0));
  const int workers = stats.workers_configured;
  if (workers < most && wanted > workers) {
    report.advice.push_back(
        absl::StrCat("use more workers: ", std::min(wanted, most), " (now ",
                     workers, ", of ", most, " cores)",
                     wanted > most ? "; that many still do not keep up" : ""));
  }
  report.advice.push_back(absl::StrCat(
      AboutStage(report.slowest), ": ", StageName(report.slowest), " takes ",
      FormatNs(
          PerBatch(all.ns[static_cast<size_t>(report.slowest)], all.batches)),
      " of the ", FormatNs(batch_ns), " of a batch"));
  if (workers > most) {
    report.advice.push_back(absl::StrCat("use fewer workers: ", workers,
                                         " share ", most, " cores"));
  }
}

void ReportLoader(LoaderReport& report) {
  const LoaderStats& stats = report.stats;
  const Together all = Sum(stats.workers);
  report.slowest = SlowestOf(all.ns);
  report.slow_workers = SlowWorkers(stats.workers);
  report.verdict =
      absl::StrCat("The loader is the bottleneck: the consumer waits for ",
                   Percent(report.waiting), " of its time.");
  if (!report.slow_workers.empty()) {
    report.advice.push_back(absl::StrCat(
        report.slow_workers.size() == 1 ? "look at worker "
                                        : "look at workers ",
        absl::StrJoin(report.slow_workers, ", "),
        ": a batch takes more than twice as long there as in the others",
        stats.in_order ? "; with in_order = false the others do not wait for it"
                       : ""));
  }
  if (all.busy() < kIdle && report.slow_workers.empty()) {
    report.advice.push_back(absl::StrCat(
        "raise prefetch (now ", stats.prefetch, "): workers are idle for ",
        Percent(1 - all.busy()), " of their time and yet the consumer waits"));
  }
  if (const double uneven = Unevenness(stats, report.slowest);
      uneven >= kUneven) {
    report.advice.push_back(absl::StrFormat(
        "raise prefetch (now %d)%s: of 100 batches one takes %.0f times as "
        "long as most",
        stats.prefetch, stats.in_order ? ", or set in_order = false" : "",
        uneven));
  }
  if (all.busy() >= kIdle) AdviseMoreWorkers(report, all);
}

void ReportLocal(LoaderReport& report) {
  const ProcessStats& consumer = report.stats.consumer;
  report.slowest = SlowestOf(Sum({consumer}).ns);
  report.verdict = absl::StrCat(
      "The loader is the bottleneck: without workers, the consumer makes "
      "batches for ",
      Percent(report.waiting), " of its time.");
  const double others = std::max(
      PerBatch(consumer.TotalNs() - MakingNs(consumer), consumer.batches), 1.0);
  const double wanted =
      std::ceil(PerBatch(MakingNs(consumer), consumer.batches) / others);
  report.advice.push_back(absl::StrFormat(
      "use workers: %.0f of %d cores",
      std::clamp(wanted, 1.0,
                 std::max(1.0, static_cast<double>(report.stats.cores))),
      report.stats.cores));
  report.advice.push_back(AboutStage(report.slowest));
}

void ReportConsumer(LoaderReport& report) {
  const LoaderStats& stats = report.stats;
  report.verdict = absl::StrCat(
      "The consumer is the bottleneck: it waits for ",
      stats.workers_configured == 0 ? "its own batches for " : "batches for ",
      Percent(report.waiting), " of its time.");
  if (stats.workers.size() < 2) return;
  double busy = 0;
  for (const ProcessStats& worker : stats.workers) {
    busy += worker.TotalNs() == 0 ? 0
                                  : static_cast<double>(MakingNs(worker)) /
                                        static_cast<double>(worker.TotalNs());
  }
  const int enough = std::max(1, static_cast<int>(std::ceil(busy / kWellUsed)));
  if (enough < static_cast<int>(stats.workers.size())) {
    report.advice.push_back(
        absl::StrCat("fewer workers would do: ", enough, " (now ",
                     stats.workers.size(), "), as they are busy for ",
                     Percent(busy / static_cast<double>(stats.workers.size())),
                     " of their time"));
  }
}

void AdviseOnStarts(LoaderReport& report) {
  const ProcessStats& consumer = report.stats.consumer;
  const TimeHistogram& starts = consumer.of(Stage::kStart);
  // The first epoch also waits for the datasets of the workers.
  if (starts.count() < 3) return;
  const auto all = static_cast<double>(starts.total_ns + consumer.TotalNs());
  const double share = static_cast<double>(starts.total_ns) / all;
  if (share < kSlowStarts) return;
  report.advice.push_back(
      absl::StrCat("set overlap_epochs: ", Percent(share),
                   " of the time passes before the first batches of epochs"));
}

void AppendRow(std::string& text, const ProcessStats& process) {
  const std::string name =
      process.worker < 0 ? "consumer" : absl::StrCat("worker ", process.worker);
  for (size_t s = 0; s < kStages; ++s) {
    const auto stage = static_cast<Stage>(s);
    const TimeHistogram& times = process.of(stage);
    if (times.count() == 0) continue;
    absl::StrAppendFormat(
        &text, "%-10s %-8s %6s %10d %10s %10s %10s %10s\n", name,
        StageName(stage),
        stage == Stage::kStart ? "" : Percent(process.ShareOf(stage)),
        times.count(), FormatNs(times.MeanNs()),
        FormatNs(static_cast<double>(times.QuantileNs(0.5))),
        FormatNs(static_cast<double>(times.QuantileNs(0.99))),
        FormatNs(static_cast<double>(times.longest_ns)));
  }
}

std::string JsonOf(const ProcessStats& process) {
  std::vector<std::string> stages;
  for (size_t s = 0; s < kStages; ++s) {
    const auto stage = static_cast<Stage>(s);
    const TimeHistogram& times = process.of(stage);
    if (times.count() == 0) continue;
    stages.push_back(absl::StrCat(JsonString(StageName(stage)),
                                  ": {\"count\": ", times.count(),
                                  ", \"total_ns\": ", times.total_ns,
                                  ", \"p50_ns\": ", times.QuantileNs(0.5),
                                  ", \"p99_ns\": ", times.QuantileNs(0.99),
                                  ", \"longest_ns\": ", times.longest_ns, "}"));
  }
  return absl::StrCat(
      "{\"pid\": ", process.pid, ", \"worker\": ", process.worker,
      ", \"batches\": ", process.batches, ", \"samples\": ", process.samples,
      ", \"stages\": {", absl::StrJoin(stages, ", "), "}}");
}

std::string JsonList(const std::vector<std::string>& items) {
  return absl::StrCat("[", absl::StrJoin(items, ", "), "]");
}

}  // namespace

absl::string_view BottleneckName(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kConsumer:
      return "consumer";
    case Bottleneck::kLoader:
      return "loader";
    default:
      return "unknown";
  }
}

std::string FormatNs(double ns) {
  if (ns < 1e3) return absl::StrFormat("%.0f ns", ns);
  if (ns < 1e6) return absl::StrFormat("%.1f us", ns / 1e3);
  if (ns < 1e9) return absl::StrFormat("%.1f ms", ns / 1e6);
  return absl::StrFormat("%.1f s", ns / 1e9);
}

LoaderReport MakeReport(const LoaderStats& stats) {
  LoaderReport report = {.stats = stats};
  const ProcessStats& consumer = stats.consumer;
  const bool is_local = stats.workers_configured == 0;
  if (consumer.batches < kFewBatches || consumer.TotalNs() == 0) {
    report.verdict =
        absl::StrCat(consumer.batches, " batches are too few to say; run ",
                     kFewBatches, " or more.");
    return report;
  }
  report.waiting = is_local ? static_cast<double>(MakingNs(consumer)) /
                                  static_cast<double>(consumer.TotalNs())
                            : consumer.ShareOf(Stage::kWait);
  if (report.waiting < kHardlyWaits) {
    report.bottleneck = Bottleneck::kConsumer;
    ReportConsumer(report);
  } else {
    report.bottleneck = Bottleneck::kLoader;
    is_local ? ReportLocal(report) : ReportLoader(report);
  }
  AdviseOnStarts(report);
  return report;
}

std::string LoaderReport::ToText() const {
  const ProcessStats& consumer = stats.consumer;
  std::string text = absl::StrCat(
      "loader of '", consumer.dataset, "' in process ", consumer.pid, ": ",
      consumer.batches, " batches, ", consumer.samples, " samples, ");
  if (stats.workers_configured == 0) {
    text += "no workers\n";
  } else {
    absl::StrAppendFormat(&text,
                          "%d worker%s, prefetch %d, on average %.1f batches "
                          "ready\n",
                          stats.workers_configured,
                          stats.workers_configured == 1 ? "" : "s",
                          stats.prefetch, stats.ready);
  }
  absl::StrAppend(&text, verdict, "\n");
  for (const std::string& item : advice) {
    absl::StrAppend(&text, "- ", item, "\n");
  }
  absl::StrAppendFormat(&text, "%-10s %-8s %6s %10s %10s %10s %10s %10s\n", "",
                        "stage", "share", "times", "mean", "p50", "p99",
                        "longest");
  AppendRow(text, consumer);
  for (const ProcessStats& worker : stats.workers) AppendRow(text, worker);
  return text;
}

std::string LoaderReport::ToJson() const {
  std::vector<std::string> advised, workers, slow;
  for (const std::string& item : advice) advised.push_back(JsonString(item));
  for (const ProcessStats& worker : stats.workers) {
    workers.push_back(JsonOf(worker));
  }
  for (const int worker : slow_workers) slow.push_back(absl::StrCat(worker));
  return absl::StrCat(
      "{\"dataset\": ", JsonString(stats.consumer.dataset),
      ", \"bottleneck\": ", JsonString(BottleneckName(bottleneck)),
      ", \"waiting\": ", absl::StrFormat("%.4f", waiting),
      ", \"slowest_stage\": ", JsonString(StageName(slowest)),
      ", \"slow_workers\": ", JsonList(slow),
      ", \"verdict\": ", JsonString(verdict),
      ", \"advice\": ", JsonList(advised),
      ", \"workers_configured\": ", stats.workers_configured,
      ", \"prefetch\": ", stats.prefetch,
      ", \"batch_size\": ", stats.batch_size,
      ", \"in_order\": ", stats.in_order ? "true" : "false",
      ", \"cores\": ", stats.cores,
      ", \"ready\": ", absl::StrFormat("%.3f", stats.ready),
      ", \"consumer\": ", JsonOf(stats.consumer),
      ", \"workers\": ", JsonList(workers), "}");
}

}  // namespace tenon::loader
