// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The memory of counters of one process of a loader: words of 64 bits, which
// that process writes and all others may only read.
//
//   identity       written once, before another process has the descriptor
//   state          current stage, its beginning and its batch; exact counts
//   stages         of each: total, longest, buckets of a histogram
//   taken          in the consumer's: batches taken from each worker
//   events         a ring of the last stages; kEventsPut counts them

#ifndef TENON_LOADER_STATS_STATS_LAYOUT_H_
#define TENON_LOADER_STATS_STATS_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "tenon/loader/stats/loader_stats.h"
#include "tenon/shm/base/time_histogram.h"

namespace tenon::loader {

inline constexpr char kConsumerStatsLabel[] = "tenon.loader";
inline constexpr char kWorkerStatsLabel[] = "tenon.loader-worker";

struct StatsWord {
  static constexpr uint64_t kMagicValue = 0x31304C534E4E5431;
  static constexpr size_t kNameWords = 8;  // 64 bytes of text.
  enum : size_t {
    kMagic,
    kLoaderHigh,
    kLoaderLow,
    kPid,
    kWorker,  // 0: the consumer; else its number + 1.
    kWorkers,
    kPrefetch,
    kBatchSize,
    kInOrder,
    kCores,
    kStartedNs,
    kEvents,  // How many events there is room for.
    kName,
    // Begins a cache line.
    kStage = 24,
    kSinceNs,
    kEpoch,
    kBatch,
    kBatches,
    kSamples,
    kReadySum,
    kReadyCount,
    kEventsPut,
    kFirstStage = 40,
  };
};

// The first of the TimeWords of a stage.
constexpr size_t StageWordOf(Stage stage) {
  return StatsWord::kFirstStage +
         static_cast<size_t>(stage) * TimeWords::kWords;
}

inline constexpr int kMaxStatsWorkers = 512;
inline constexpr size_t kTakenWords =
    StatsWord::kFirstStage + kStages * TimeWords::kWords;
constexpr size_t TakenWord(int worker) {
  return kTakenWords + static_cast<size_t>(worker);
}

struct EventWord {
  enum : size_t { kBegin, kDurationAndStage, kEpoch, kBatch };
  static constexpr size_t kWords = 4;
  static constexpr unsigned kStageBits = 4;
};
inline constexpr size_t kEventWords = kTakenWords + kMaxStatsWorkers;
inline constexpr uint64_t kMaxStatsEvents = uint64_t{1} << 20;

constexpr size_t StatsWords(uint64_t events) {
  return kEventWords + static_cast<size_t>(events) * EventWord::kWords;
}

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_STATS_LAYOUT_H_
