// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoaderStats: the time of a loader's processes, by stage. See Loader::Stats().
//
//   const LoaderStats stats = photos->Stats();
//   for (const ProcessStats& worker : stats.workers) {
//     std::cout << worker.worker << ": "
//               << worker.of(Stage::kLoad).MeanNs() * 1e-6 << " ms a batch\n";
//   }

#ifndef TENON_LOADER_STATS_LOADER_STATS_H_
#define TENON_LOADER_STATS_LOADER_STATS_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/time_histogram.h"

namespace tenon::loader {

// The stages of a process of a loader. In a loader without workers the consumer
// has those of a worker, too.
enum class Stage : uint32_t {
  kStart,    // A worker makes the dataset; the consumer waits for the first
             // batch of an epoch.
  kWait,     // A worker waits for a task; the consumer waits for a batch.
  kLoad,     // Worker: the dataset makes samples.
  kCollate,  // Worker: samples of different shapes become tensors.
  kQueue,    // Worker: takes a task, allocates the batch, puts the result.
  kTake,     // Consumer: Next() assigns tasks and claims a batch.
  kUse,      // Consumer: between two calls of Next(): its own work.
};
inline constexpr size_t kStages = 7;

// "start", "wait", ...
absl::string_view StageName(Stage stage);

// A stage of one batch, as it was measured.
struct StageEvent {
  Stage stage = Stage::kStart;
  int64_t begin_ns = 0;  // MonotonicNs().
  uint64_t duration_ns = 0;
  int64_t epoch = -1;  // -1: not known.
  int64_t batch = -1;  // Its number in the epoch; -1: not known.
};

// The counters of the consumer, a worker process or a worker thread.
struct ProcessStats {
  RandomId loader;
  pid_t pid = 0;    // In that process's own pid namespace.
  int worker = -1;  // -1: the consumer.
  std::string dataset;
  int64_t started_ns = 0;  // MonotonicNs(), as all times here.

  uint64_t batches = 0;  // That a worker made, or the consumer returned.
  uint64_t samples = 0;  // Of these.
  // The current stage, its beginning, and its batch.
  Stage stage = Stage::kStart;
  int64_t since_ns = 0;
  int64_t epoch = -1;
  int64_t batch = -1;

  std::array<TimeHistogram, kStages> stages;
  const TimeHistogram& of(Stage s) const {
    return stages[static_cast<size_t>(s)];
  }
  // The time of all stages but kStart.
  uint64_t TotalNs() const;
  // The share of a stage in TotalNs(); 0 to 1.
  double ShareOf(Stage s) const;

  // The last stages that were measured, oldest first.
  std::vector<StageEvent> events;
};

// Ownership: a value. Threads: thread-compatible.
// Trust: each process counts for itself, so a hostile worker can falsify its
//   own figures, and no others.
struct LoaderStats {
  ProcessStats consumer;
  // By number; empty without workers. The counters of a worker that replaced
  // another one begin at zero; those of the other one are dropped.
  std::vector<ProcessStats> workers;
  int workers_configured = 0;  // 0: the consumer makes the batches itself.
  int prefetch = 0;
  int64_t batch_size = 0;
  bool in_order = true;
  int cores = 0;            // Those that the consumer may use.
  int64_t taken_at_ns = 0;  // MonotonicNs().
  // How many finished batches the consumer found when it came for one, on
  // average: with in_order those of the worker whose batch is next, else the
  // mean over all workers.
  double ready = 0;
  // How many finished batches each of `workers` has now, in that order.
  std::vector<uint64_t> ready_now;

  // The difference to `before`, an earlier value of the same loader. A worker
  // that has been replaced since counts from its start. Longest times, events,
  // current stages and ready_now are those of this value.
  LoaderStats Since(const LoaderStats& before) const;

  // `ready` is ready_sum / ready_count.
  uint64_t ready_sum = 0;
  uint64_t ready_count = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_LOADER_STATS_H_
