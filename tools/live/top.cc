// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/live/top.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "tenon/ipc/queue/queue_query.h"
#include "tenon/loader/stats/loader_report.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/open_metrics.h"
#include "tenon/loader/stats/stats_query.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/cli/quantity.h"
#include "tenon/tools/cli/table.h"
#include "tenon/tools/cli/terminal_text.h"
#include "tenon/tools/live/ps.h"

namespace tenon::tools {
namespace {

using loader::LoaderReport;
using loader::LoaderStats;
using loader::ProcessStats;
using loader::Stage;

// The blocks of a process of a loader that have holders: batches that are being
// made, wait, or are used.
BlockSum BlocksOf(const ProcessStats& process, const LedgerReport& ledger) {
  const std::string name = process.worker < 0
                               ? "loader"
                               : absl::StrCat("loader-worker-", process.worker);
  BlockSum sum;
  for (const ArenaReport& arena : ledger.arenas) {
    if (arena.owner != process.pid || arena.name != name) continue;
    sum.blocks += arena.in_use.blocks + arena.lent.blocks;
    sum.bytes += arena.in_use.bytes + arena.lent.bytes;
  }
  return sum;
}

// Adds the part of the current stage that lies in the time looked at.
void AddCurrent(int64_t from_ns, int64_t now_ns, ProcessStats& process) {
  const int64_t begin = std::max(process.since_ns, from_ns);
  if (process.since_ns <= 0 || begin >= now_ns) return;
  process.stages[static_cast<size_t>(process.stage)].total_ns +=
      static_cast<uint64_t>(now_ns - begin);
}

std::string Rate(uint64_t count, double seconds) {
  if (seconds <= 0) return "-";
  const double rate = static_cast<double>(count) / seconds;
  return absl::StrFormat("%.*f", rate < 10 ? 1 : 0, rate);
}

std::string Share(const ProcessStats& process, Stage stage) {
  const uint64_t all = process.TotalNs() + process.of(Stage::kStart).total_ns;
  if (all == 0) return "-";
  const uint64_t ns = process.of(stage).total_ns;
  if (ns == 0) return "";
  return absl::StrFormat(
      "%.0f%%", 100.0 * static_cast<double>(ns) / static_cast<double>(all));
}

void AddRow(const LoaderStats& loader, const ProcessStats& process,
            const std::string& ready, const LedgerReport& ledger,
            double seconds, Table& table) {
  const BlockSum blocks = BlocksOf(process, ledger);
  std::vector<std::string> cells = {
      process.worker < 0 ? "consumer" : absl::StrCat("worker ", process.worker),
      absl::StrCat(process.pid),
      std::string(StageName(process.stage)),
      FormatAge(absl::Nanoseconds(loader.taken_at_ns - process.since_ns)),
      process.batch < 0 ? "" : absl::StrCat(process.epoch, ":", process.batch),
      Rate(process.batches, seconds),
      ready};
  for (const Stage stage :
       {Stage::kStart, Stage::kWait, Stage::kLoad, Stage::kCollate,
        Stage::kQueue, Stage::kTake, Stage::kUse}) {
    cells.push_back(Share(process, stage));
  }
  cells.push_back(absl::StrCat(blocks.blocks));
  cells.push_back(FormatBytes(blocks.bytes));
  table.AddRow(cells);
}

// Of the time looked at or, if it has too few batches, of all.
LoaderReport ReportOf(const TopReading& added, size_t number) {
  LoaderReport report = MakeReport(added.loaders.loaders[number]);
  if (report.bottleneck != loader::Bottleneck::kUnknown ||
      number >= added.whole.size()) {
    return report;
  }
  return MakeReport(added.whole[number]);
}

std::string LoaderText(const TopReading& added, size_t number, double seconds,
                       size_t width) {
  const LoaderStats& loader = added.loaders.loaders[number];
  const LedgerReport& ledger = added.ledger;
  const LoaderReport report = ReportOf(added, number);
  std::string text = absl::StrCat(
      "loader of ", TerminalText(loader.consumer.dataset), ", process ",
      loader.consumer.pid, ": ", Rate(loader.consumer.batches, seconds),
      " batches/s, ", Rate(loader.consumer.samples, seconds), " samples/s, ");
  if (loader.workers_configured == 0) {
    text += "no workers\n";
  } else {
    absl::StrAppend(&text, loader.workers_configured,
                    loader.workers_configured == 1 ? " worker" : " workers",
                    ", prefetch ", loader.prefetch, "\n");
  }
  absl::StrAppend(&text, "  ", report.verdict, "\n");
  for (const std::string& advice : report.advice) {
    absl::StrAppend(&text, "  - ", advice, "\n");
  }
  Table table({"", ">PID", "DOES", ">FOR", "?>BATCH", ">PER S", "?>READY",
               "?>START", ">WAIT", ">LOAD", "?>COLLATE", "?>QUEUE", "?>TAKE",
               "?>USE", "?>BLOCKS", "?>BYTES"});
  AddRow(loader, loader.consumer, "", ledger, seconds, table);
  for (size_t i = 0; i < loader.workers.size(); ++i) {
    AddRow(loader, loader.workers[i],
           i < loader.ready_now.size() ? absl::StrCat(loader.ready_now[i]) : "",
           ledger, seconds, table);
  }
  return FoldLines(text, width) + table.ToText(2, width);
}

// Of those that have waited.
void AddWaits(const TimeHistogram& waits,
              const loader::OpenMetrics::Labels& labels,
              loader::OpenMetrics& metrics) {
  if (waits.count() > 0) metrics.AddTimes(labels, waits);
}

void AddArenas(const LedgerReport& ledger, loader::OpenMetrics& metrics) {
  const auto labels = [](const ArenaReport& arena) {
    return loader::OpenMetrics::Labels{{"pid", absl::StrCat(arena.owner)},
                                       {"arena", arena.arena.ToString()},
                                       {"name", arena.name}};
  };
  const auto add = [&](const ArenaReport& arena, auto&& value) {
    for (const auto& [state, sum] :
         {std::pair("in use", arena.in_use), std::pair("lent", arena.lent),
          std::pair("resting", arena.resting), std::pair("free", arena.free)}) {
      loader::OpenMetrics::Labels all = labels(arena);
      all.emplace_back("state", state);
      metrics.Add(all, static_cast<double>(value(sum)));
    }
  };
  metrics.Family("tenon_arena_blocks", "gauge", "",
                 "Blocks of an arena, by state (`tenon help mem`).");
  for (const ArenaReport& arena : ledger.arenas) {
    add(arena, [](const BlockSum& sum) { return sum.blocks; });
  }
  metrics.Family("tenon_arena_block_bytes", "gauge", "bytes",
                 "Bytes of these blocks.");
  for (const ArenaReport& arena : ledger.arenas) {
    add(arena, [](const BlockSum& sum) { return sum.bytes; });
  }
  metrics.Family("tenon_arena_segment_bytes", "gauge", "bytes",
                 "Memory that an arena has.");
  for (const ArenaReport& arena : ledger.arenas) {
    metrics.Add(labels(arena), static_cast<double>(arena.segment_bytes));
  }
  metrics.Family("tenon_arena_quota_bytes", "gauge", "bytes",
                 "Memory that an arena may have; 0: no bound.");
  for (const ArenaReport& arena : ledger.arenas) {
    metrics.Add(labels(arena), static_cast<double>(arena.quota_bytes));
  }
  metrics.Family("tenon_arena_wait_seconds", "histogram", "seconds",
                 "Time that allocations waited for memory.");
  for (const ArenaReport& arena : ledger.arenas) {
    AddWaits(arena.waits, labels(arena), metrics);
  }
}

void AddQueues(const QueueReports& reports, loader::OpenMetrics& metrics) {
  const auto labels = [](const QueueReport& queue) {
    return loader::OpenMetrics::Labels{{"queue", queue.id.ToString()},
                                       {"name", queue.name}};
  };
  metrics.Family("tenon_queue_items", "gauge", "", "Items not taken yet.");
  for (const QueueReport& queue : reports.queues) {
    metrics.Add(labels(queue), static_cast<double>(queue.items));
  }
  metrics.Family("tenon_queue_put", "counter", "",
                 "Items that were put, by slot.");
  for (const QueueReport& queue : reports.queues) {
    for (const QueueSlotReport& slot : queue.slots) {
      loader::OpenMetrics::Labels all = labels(queue);
      all.emplace_back("slot", absl::StrCat(slot.slot));
      metrics.Add(all, static_cast<double>(slot.put));
    }
  }
  const auto add_waits = [&](TimeHistogram QueueSlotReport::*waits) {
    for (const QueueReport& queue : reports.queues) {
      for (const QueueSlotReport& slot : queue.slots) {
        loader::OpenMetrics::Labels all = labels(queue);
        all.emplace_back("slot", absl::StrCat(slot.slot));
        AddWaits(slot.*waits, all, metrics);
      }
    }
  };
  metrics.Family("tenon_queue_get_wait_seconds", "histogram", "seconds",
                 "Time that calls slept for an item, by slot.");
  add_waits(&QueueSlotReport::get_waits);
  metrics.Family("tenon_queue_put_wait_seconds", "histogram", "seconds",
                 "Time that calls slept for room, by slot.");
  add_waits(&QueueSlotReport::put_waits);
  metrics.Family("tenon_queue_capacity", "gauge", "",
                 "Items for which each slot has room.");
  for (const QueueReport& queue : reports.queues) {
    metrics.Add(labels(queue), static_cast<double>(queue.capacity));
  }
}

}  // namespace

absl::StatusOr<TopReading> ReadTop() {
  TopReading reading;
  TENON_ASSIGN_OR_RETURN(reading.loaders, loader::QueryLoaders());
  TENON_ASSIGN_OR_RETURN(reading.ledger, QueryLedger());
  return reading;
}

TopReading TopSince(const TopReading& now, const TopReading& before) {
  TopReading added = now;
  added.whole = now.loaders.loaders;
  for (LoaderStats& loader : added.loaders.loaders) {
    const auto old = std::find_if(
        before.loaders.loaders.begin(), before.loaders.loaders.end(),
        [&](const LoaderStats& other) {
          return other.consumer.loader == loader.consumer.loader;
        });
    int64_t from = loader.consumer.started_ns;
    if (old != before.loaders.loaders.end()) {
      loader = loader.Since(*old);
      from = old->taken_at_ns;
    }
    AddCurrent(from, loader.taken_at_ns, loader.consumer);
    for (ProcessStats& worker : loader.workers) {
      AddCurrent(from, loader.taken_at_ns, worker);
    }
  }
  return added;
}

std::string TopText(const TopReading& added, double seconds, size_t width) {
  if (added.loaders.loaders.empty()) {
    return absl::StrCat("no process of this user has a loader\n",
                        HiddenText(added.loaders.hidden));
  }
  std::string text;
  for (size_t i = 0; i < added.loaders.loaders.size(); ++i) {
    if (!text.empty()) text += "\n";
    text += LoaderText(added, i, seconds, width);
  }
  return text + HiddenText(added.loaders.hidden);
}

Json TopJson(const TopReading& added, double seconds) {
  Json loaders = Json::array();
  for (const LoaderStats& stats : added.loaders.loaders) {
    Json loader = Json::parse(MakeReport(stats).ToJson());
    loader["id"] = stats.consumer.loader.ToString();
    for (size_t i = 0; i < stats.workers.size(); ++i) {
      Json& worker = loader["workers"][i];
      const ProcessStats& process = stats.workers[i];
      const BlockSum blocks = BlocksOf(process, added.ledger);
      worker["stage"] = std::string(StageName(process.stage));
      worker["epoch"] = process.epoch;
      worker["batch"] = process.batch;
      worker["ready"] = i < stats.ready_now.size() ? stats.ready_now[i] : 0;
      worker["blocks"] = blocks.blocks;
      worker["block_bytes"] = blocks.bytes;
    }
    loaders.push_back(std::move(loader));
  }
  return {{"seconds", seconds},
          {"loaders", std::move(loaders)},
          {"hidden_pids", added.loaders.hidden}};
}

absl::StatusOr<std::string> MetricsText() {
  TENON_ASSIGN_OR_RETURN(const TopReading reading, ReadTop());
  TENON_ASSIGN_OR_RETURN(const QueueReports queues, QueryQueues());
  loader::OpenMetrics metrics;
  AddLoaders(reading.loaders.loaders, metrics);
  AddArenas(reading.ledger, metrics);
  AddQueues(queues, metrics);
  return metrics.ToText();
}

}  // namespace tenon::tools
