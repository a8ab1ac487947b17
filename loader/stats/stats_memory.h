// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StatsMemory and StatsView: the counters of one process of a loader, in memory
// that it writes and others map read-only.

#ifndef TENON_LOADER_STATS_STATS_MEMORY_H_
#define TENON_LOADER_STATS_STATS_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon::loader {

// The words that never change.
struct StatsInfo {
  RandomId loader;
  int worker = -1;      // -1: the consumer.
  std::string dataset;  // The first 64 bytes are kept.
  int workers = 0;
  int prefetch = 0;
  int64_t batch_size = 0;
  bool in_order = true;
  int cores = 0;
  int events = 0;  // Rounded up to a power of two.
};

// The writer's end.
// Ownership: owns the memory, which lives as long as any descriptor or mapping.
// Threads: thread-compatible. Processes: of the one that made it; a forked
//   child must not call meter().
class StatsMemory {
 public:
  // Errors: ControlMemory::Create()'s.
  static absl::StatusOr<StatsMemory> Create(const StatsInfo& info);

  // For the reader, and for `tenon top`, which finds it in /proc.
  int fd() const { return memory_.fd(); }
  StageMeter meter() const;
  // For this process's own reports.
  const std::byte* data() const { return memory_.data(); }
  size_t size_bytes() const { return memory_.size_bytes(); }

 private:
  StatsMemory(ControlMemory memory, uint64_t events)
      : memory_(std::move(memory)), events_(events) {}

  ControlMemory memory_;
  uint64_t events_;
};

// A reader's end, which outlives the writer.
// Trust: the writer may write anything; a reading is checked.
class StatsView {
 public:
  StatsView() = default;
  // Maps it; the descriptor may be closed. Errors: ControlView::Adopt()'s;
  // kDataLoss if it is too small or malformed.
  static absl::StatusOr<StatsView> Adopt(int fd);

  bool has_memory() const { return view_.data() != nullptr; }
  const std::byte* data() const { return view_.data(); }
  size_t size_bytes() const { return view_.size_bytes(); }
  // The current stage and its beginning; one word each.
  Stage stage() const;
  int64_t since_ns() const;
  uint64_t batches() const;

 private:
  uint64_t Load(size_t word) const;

  ControlView view_;
};

// Copies the words of a memory that may be written meanwhile, and of any size
// only those of its events.
std::vector<uint64_t> CopyStatsWords(const std::byte* data, size_t size_bytes);

// What the words say. The consumer's memory has the options of the loader, too.
struct ParsedStats {
  ProcessStats process;
  StatsInfo info;
  std::vector<uint64_t> taken;  // By worker; of the consumer.
  uint64_t ready_sum = 0;
  uint64_t ready_count = 0;
};
// Times and counts are limited so that no sum or difference of them overflows.
// Errors: kDataLoss if they are not such a memory, or of another version.
absl::StatusOr<ParsedStats> ParseStats(const std::vector<uint64_t>& words);

// The consumer's and the workers', as one. Workers of other loaders, and
// several of one number, must not be among them.
LoaderStats JoinStats(const ParsedStats& consumer,
                      std::vector<ParsedStats> workers, int64_t now_ns);

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_STATS_MEMORY_H_
