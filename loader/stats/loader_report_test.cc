// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/loader_report.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/stats/json_text.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/loader_trace.h"
#include "tenon/loader/stats/open_metrics.h"
#include "tenon/loader/stats/stats_layout.h"
#include "tenon/loader/stats/stats_memory.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kMs = 1'000'000;

void AddTimes(ProcessStats& process, Stage stage, uint64_t times, uint64_t ns) {
  TimeHistogram& of = process.stages[static_cast<size_t>(stage)];
  of.buckets[TimeHistogram::BucketOf(ns)] += times;
  of.total_ns += times * ns;
  of.longest_ns = std::max(of.longest_ns, ns);
}

// 100 batches, of which the consumer waits `wait` ms for each and uses each for
// `use`; each worker takes `load` ms for a batch and has none for `idle`.
LoaderStats Some(int workers, uint64_t wait, uint64_t use, uint64_t load,
                 uint64_t idle) {
  LoaderStats stats = {.workers_configured = workers,
                       .prefetch = 2,
                       .batch_size = 4,
                       .cores = 8};
  stats.consumer.dataset = "Photos";
  stats.consumer.pid = 4711;
  stats.consumer.batches = 100;
  stats.consumer.samples = 400;
  if (wait > 0) AddTimes(stats.consumer, Stage::kWait, 100, wait * kMs);
  AddTimes(stats.consumer, Stage::kUse, 100, use * kMs);
  for (int i = 0; i < workers; ++i) {
    ProcessStats worker;
    worker.worker = i;
    worker.pid = 4712 + i;
    worker.batches = 100 / static_cast<uint64_t>(workers);
    AddTimes(worker, Stage::kLoad, worker.batches, load * kMs);
    if (idle > 0) AddTimes(worker, Stage::kWait, worker.batches, idle * kMs);
    stats.workers.push_back(worker);
    stats.ready_now.push_back(0);
  }
  return stats;
}

TEST(LoaderReportTest, ASlowDatasetNeedsMoreWorkers) {
  const LoaderReport report = MakeReport(Some(2, 15, 5, 40, 0));
  EXPECT_EQ(report.bottleneck, Bottleneck::kLoader);
  EXPECT_EQ(report.slowest, Stage::kLoad);
  EXPECT_EQ(report.verdict,
            "The loader is the bottleneck: the consumer waits for 75% of its "
            "time.");
  EXPECT_THAT(report.advice,
              ElementsAre("use more workers: 8 (now 2, of 8 cores)",
                          HasSubstr("make the dataset's Get() cheaper")));
  EXPECT_THAT(report.slow_workers, IsEmpty());
}

TEST(LoaderReportTest, AllCoresAreNotEnough) {
  const LoaderReport report = MakeReport(Some(2, 39, 1, 80, 0));
  EXPECT_THAT(report.advice,
              Contains("use more workers: 8 (now 2, of 8 cores); that many "
                       "still do not keep up"));
}

TEST(LoaderReportTest, ASlowConsumerNeedsFewerWorkers) {
  const LoaderReport report = MakeReport(Some(4, 0, 100, 40, 360));
  EXPECT_EQ(report.bottleneck, Bottleneck::kConsumer);
  EXPECT_EQ(report.verdict,
            "The consumer is the bottleneck: it waits for batches for 0% of "
            "its time.");
  EXPECT_THAT(report.advice,
              ElementsAre("fewer workers would do: 1 (now 4), as they are busy "
                          "for 10% of their time"));
}

TEST(LoaderReportTest, ABalancedLoaderStaysAsItIs) {
  const LoaderReport report = MakeReport(Some(4, 0, 25, 80, 20));
  EXPECT_EQ(report.bottleneck, Bottleneck::kConsumer);
  EXPECT_THAT(report.advice, IsEmpty());
}

TEST(LoaderReportTest, SlowCollationIsNamed) {
  LoaderStats stats = Some(8, 15, 1, 10, 0);
  for (ProcessStats& worker : stats.workers) {
    AddTimes(worker, Stage::kCollate, worker.batches, 110 * kMs);
  }
  const LoaderReport report = MakeReport(stats);
  EXPECT_EQ(report.slowest, Stage::kCollate);
  EXPECT_THAT(report.advice,
              ElementsAre("make collation cheaper: a field of one shape needs "
                          "none, and fewer or shorter fields of other shapes "
                          "need less: collate takes 110.0 ms of the 120.0 ms "
                          "of a batch"));
}

TEST(LoaderReportTest, OneSlowWorkerIsNamed) {
  LoaderStats stats = Some(4, 20, 5, 20, 0);
  stats.workers[2].stages = {};
  AddTimes(stats.workers[2], Stage::kLoad, 25, 100 * kMs);
  LoaderReport report = MakeReport(stats);
  EXPECT_THAT(report.slow_workers, ElementsAre(2));
  EXPECT_THAT(report.advice[0], HasSubstr("look at worker 2: "));
  EXPECT_THAT(report.advice[0], HasSubstr("in_order = false"));
  stats.in_order = false;
  EXPECT_THAT(MakeReport(stats).advice[0], Not(HasSubstr("in_order")));
}

TEST(LoaderReportTest, IdleWorkersBesideAWaitingConsumerNeedPrefetch) {
  const LoaderReport report = MakeReport(Some(4, 20, 5, 20, 80));
  EXPECT_THAT(report.advice,
              ElementsAre(HasSubstr("raise prefetch (now 2): workers are idle "
                                    "for 80% of their time")));
}

TEST(LoaderReportTest, FewSlowBatchesNeedPrefetch) {
  LoaderStats stats = Some(2, 15, 5, 40, 0);
  for (ProcessStats& worker : stats.workers) {
    AddTimes(worker, Stage::kLoad, 1, 2000 * kMs);
  }
  EXPECT_THAT(MakeReport(stats).advice,
              Contains(HasSubstr("raise prefetch (now 2), or set in_order = "
                                 "false: of 100 batches one takes 30 times")));
}

TEST(LoaderReportTest, WithoutWorkersTheyAreAdvised) {
  LoaderStats stats = Some(0, 0, 10, 0, 0);
  AddTimes(stats.consumer, Stage::kLoad, 100, 30 * kMs);
  const LoaderReport report = MakeReport(stats);
  EXPECT_EQ(report.bottleneck, Bottleneck::kLoader);
  EXPECT_THAT(report.verdict, HasSubstr("makes batches for 75% of its time"));
  EXPECT_THAT(report.advice, Contains("use workers: 3 of 8 cores"));
}

TEST(LoaderReportTest, SlowStartsOfEpochsAreNamed) {
  LoaderStats stats = Some(4, 0, 25, 80, 20);
  AddTimes(stats.consumer, Stage::kStart, 10, 200 * kMs);
  EXPECT_THAT(MakeReport(stats).advice,
              ElementsAre(HasSubstr("set overlap_epochs: 44% of the time")));
}

TEST(LoaderReportTest, FewBatchesSayNothing) {
  LoaderStats stats = Some(1, 15, 5, 40, 0);
  stats.consumer.batches = 7;
  const LoaderReport report = MakeReport(stats);
  EXPECT_EQ(report.bottleneck, Bottleneck::kUnknown);
  EXPECT_EQ(report.verdict, "7 batches are too few to say; run 8 or more.");
  EXPECT_THAT(MakeReport(LoaderStats()).ToText(), HasSubstr("too few"));
}

TEST(LoaderReportTest, TextAndJsonSayTheSame) {
  LoaderStats stats = Some(2, 15, 5, 40, 0);
  stats.consumer.dataset = "a\"b\\\n\xff";
  const LoaderReport report = MakeReport(stats);
  const std::string text = report.ToText();
  EXPECT_THAT(text, HasSubstr(report.verdict));
  EXPECT_THAT(text, HasSubstr("- use more workers: 8"));
  EXPECT_THAT(text, HasSubstr("worker 1   load       100%"));
  EXPECT_THAT(text, HasSubstr("consumer   wait        75%"));
  const auto json = nlohmann::json::parse(report.ToJson());
  EXPECT_EQ(json["bottleneck"], "loader");
  EXPECT_EQ(json["verdict"], report.verdict);
  EXPECT_EQ(json["dataset"], "a\"b\\\n\xef\xbf\xbd");
  EXPECT_EQ(json["advice"].size(), report.advice.size());
  EXPECT_EQ(json["consumer"]["stages"]["wait"]["total_ns"], 1'500 * kMs);
  EXPECT_EQ(json["workers"][1]["pid"], 4713);
}

// The rules of OpenMetrics 1.0 that this text can break.
void CheckOpenMetrics(const std::string& text) {
  ASSERT_TRUE(absl::EndsWith(text, "\n# EOF\n"));
  std::string family, type;
  std::set<std::string> families, samples;
  std::map<std::string, double> last_bucket;
  for (absl::string_view line : absl::StrSplit(
           absl::string_view(text).substr(0, text.size() - 7), '\n')) {
    if (absl::ConsumePrefix(&line, "# ")) {
      const std::vector<std::string> words =
          absl::StrSplit(line, absl::MaxSplits(' ', 2));
      ASSERT_EQ(words.size(), 3u) << line;
      if (words[0] == "TYPE") {
        family = words[1];
        type = words[2];
        EXPECT_TRUE(families.insert(family).second) << line;
        EXPECT_FALSE(absl::EndsWith(family, "_total")) << line;
      } else if (words[0] == "UNIT") {
        EXPECT_TRUE(absl::EndsWith(family, "_" + words[2])) << line;
      } else {
        EXPECT_EQ(words[0], "HELP");
      }
      EXPECT_EQ(words[1], family) << line;
      continue;
    }
    const size_t space = line.rfind(' ');
    ASSERT_NE(space, absl::string_view::npos) << line;
    double value = -1;
    EXPECT_TRUE(absl::SimpleAtod(line.substr(space + 1), &value)) << line;
    EXPECT_GE(value, 0) << line;
    const std::string series(line.substr(0, space));
    EXPECT_TRUE(samples.insert(series).second) << line;
    absl::string_view suffix = line.substr(0, line.find('{'));
    ASSERT_TRUE(absl::ConsumePrefix(&suffix, family)) << line;
    if (type == "counter") {
      EXPECT_EQ(suffix, "_total");
    }
    if (type == "gauge") {
      EXPECT_EQ(suffix, "");
    }
    if (type != "histogram") continue;
    const std::string key = series.substr(
        0, series.find(",le=") == std::string::npos ? series.size() - 1
                                                    : series.find(",le="));
    const std::string labels = key.substr(key.find('{'));
    if (suffix == "_bucket") {
      EXPECT_GE(value, last_bucket[labels]) << line;
      last_bucket[labels] = value;
    } else if (suffix == "_count") {
      EXPECT_EQ(value, last_bucket[labels]) << line;
      EXPECT_TRUE(
          samples.contains(family + "_bucket" + labels + ",le=\"+Inf\"}"))
          << line;
    } else {
      EXPECT_EQ(suffix, "_sum") << line;
    }
  }
}

TEST(OpenMetricsTest, FollowsTheRules) {
  LoaderStats stats = Some(2, 15, 5, 40, 1);
  stats.consumer.dataset = "a\"b\\\n\xff";
  OpenMetrics metrics;
  AddLoaders({stats}, metrics);
  const std::string text = metrics.ToText();
  CheckOpenMetrics(text);
  EXPECT_THAT(text, HasSubstr("dataset=\"a\\\"b\\\\\\n?\""));
  EXPECT_THAT(text, HasSubstr("worker=\"consumer\"} 100\n"));
  EXPECT_THAT(text, HasSubstr("worker=\"1\",stage=\"load\"} 2.000000000\n"));
  OpenMetrics none;
  AddLoaders({}, none);
  CheckOpenMetrics(none.ToText());
}

TEST(OpenMetricsTest, AHostileProcessDoesNotSpoilTheText) {
  std::vector<uint64_t> words(StatsWords(0) + 1, UINT64_MAX);
  words[StatsWord::kMagic] = StatsWord::kMagicValue;
  words[StatsWord::kEvents] = 0;
  words[StatsWord::kWorker] = 0;
  TENON_ASSERT_OK_AND_ASSIGN(const ParsedStats consumer, ParseStats(words));
  words[StatsWord::kWorker] = 1;
  TENON_ASSERT_OK_AND_ASSIGN(const ParsedStats worker, ParseStats(words));
  const LoaderStats stats = JoinStats(consumer, {worker}, 1'000'000'000);
  OpenMetrics metrics;
  AddLoaders({stats}, metrics);
  CheckOpenMetrics(metrics.ToText());
  const LoaderReport report = MakeReport(stats);
  EXPECT_LE(report.waiting, 1.0);
  EXPECT_TRUE(nlohmann::json::accept(report.ToJson()));
}

TEST(LoaderReportTest, ManyWorkersOfManyYearsAreAdded) {
  // 2^64 ns in all, of which each worker idles for three quarters.
  LoaderStats stats = Some(512, 25, 1, 0, 0);
  for (ProcessStats& worker : stats.workers) {
    worker.batches = 1;
    AddTimes(worker, Stage::kLoad, 1, uint64_t{1} << 53);
    AddTimes(worker, Stage::kWait, 1, uint64_t{3} << 53);
  }
  EXPECT_THAT(MakeReport(stats).advice,
              Contains(HasSubstr("workers are idle for 75%")));
}

TEST(LoaderTraceTest, EventsHaveWhatThePerfettoUiNeeds) {
  LoaderStats stats = Some(2, 15, 5, 40, 0);
  stats.consumer.dataset = "Pho\"tos";
  stats.consumer.events = {{Stage::kWait, 1'000'500, 250, 3, 17},
                           {Stage::kUse, 1'000'750, 1, 3, 17}};
  stats.workers[1].events = {{Stage::kLoad, 1'000'000, 400, 3, 17}};
  const auto json = nlohmann::json::parse(TraceJson(stats));
  EXPECT_EQ(json["displayTimeUnit"], "ms");
  std::map<int, std::string> tracks;
  int slices = 0;
  for (const auto& event : json["traceEvents"]) {
    ASSERT_TRUE(event["name"].is_string());
    ASSERT_TRUE(event["pid"].is_number_integer());
    ASSERT_TRUE(event["tid"].is_number_integer());
    if (event["ph"] == "M") {
      tracks[event["tid"]] = event["args"]["name"];
      continue;
    }
    ASSERT_EQ(event["ph"], "X");
    ASSERT_TRUE(event["ts"].is_number());
    ASSERT_GE(event["dur"], 0);
    EXPECT_TRUE(tracks.contains(event["tid"]));
    EXPECT_EQ(event["args"]["epoch"], 3);
    EXPECT_EQ(event["args"]["batch"], 17);
    ++slices;
  }
  EXPECT_EQ(slices, 3);
  EXPECT_EQ(tracks[1], "consumer");
  EXPECT_EQ(tracks[3], "worker 1 (pid 4713)");
  EXPECT_EQ(json["traceEvents"][2]["ts"], 1000.5);
}

}  // namespace
}  // namespace tenon::loader
