// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoaderStats: where the time of a loader's processes went. A value, as
// Loader::Stats() and `tenon top` read it.
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

// What a process of a loader does, or did. In a loader without workers the
// consumer has the stages of a worker, too.
enum class Stage : uint32_t {
  kStart,    // A worker makes the dataset; the consumer waits for the first
             // batch of an epoch.
  kWait,     // A worker without a task; the consumer without a batch.
  kLoad,     // Worker: the dataset makes samples.
  kCollate,  // Worker: samples of different shapes become tensors.
  kQueue,    // Worker: takes a task, allocates the batch, puts the result.
  kTake,     // Consumer: Next() assigns tasks and claims a batch.
  kUse,      // Consumer: between two calls of Next(): its own work.
};
inline constexpr size_t kStages = 7;

// "start", "wait", ...
absl::string_view StageName(Stage stage);

// A stage of one batch.
struct StageEvent {
  Stage stage = Stage::kStart;
  int64_t begin_ns = 0;  // MonotonicNs().
  uint64_t duration_ns = 0;
  int64_t epoch = -1;  // -1: not known.
  int64_t batch = -1;  // Its number in the epoch; -1: not known.
};

// Of one process, or worker thread.
struct ProcessStats {
  RandomId loader;
  pid_t pid = 0;    // As that process sees itself.
  int worker = -1;  // -1: the consumer.
  std::string dataset;
  int64_t started_ns = 0;  // MonotonicNs(), as all times here.

  uint64_t batches = 0;  // Made; by the consumer: returned.
  uint64_t samples = 0;  // Of these.
  // What it does, since when, of which batch.
  Stage stage = Stage::kStart;
  int64_t since_ns = 0;
  int64_t epoch = -1;
  int64_t batch = -1;

  std::array<TimeHistogram, kStages> stages;
  const TimeHistogram& of(Stage s) const {
    return stages[static_cast<size_t>(s)];
  }
  // Of all stages, without kStart.
  uint64_t TotalNs() const;
  // The share of TotalNs() that a stage has; 0 to 1.
  double ShareOf(Stage s) const;

  // The last stages, oldest first.
  std::vector<StageEvent> events;
};

struct LoaderStats {
  ProcessStats consumer;
  // By number; empty without workers. One that replaced another one began at
  // zero: what the other one did is not here, except in the consumer's counts.
  std::vector<ProcessStats> workers;
  int workers_configured = 0;  // 0: the consumer makes the batches itself.
  int prefetch = 0;
  int64_t batch_size = 0;
  bool in_order = true;
  int cores = 0;            // That the consumer may use.
  int64_t taken_at_ns = 0;  // MonotonicNs().
  // Finished batches that waited, for each worker, on average when the consumer
  // came for one; at most `prefetch`.
  double ready = 0;
  // The same now, by worker.
  std::vector<uint64_t> ready_now;

  // What has been added since `before`, an earlier value of the same loader. Of
  // a worker that has been replaced since: all of the new one. Longest times
  // and events stay those of this value.
  LoaderStats Since(const LoaderStats& before) const;

  // Of the mean that underlies `ready`.
  uint64_t ready_sum = 0;
  uint64_t ready_count = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_LOADER_STATS_H_
