// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StatsMemory and StatsView: the counters of one process of a loader, in memory
// that this process writes and others map read-only.

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
// Threads: thread-compatible.
// Processes: belongs to the process that made it; a forked child must not call
//   meter().
class StatsMemory {
 public:
  // Errors: ControlMemory::Create()'s.
  static absl::StatusOr<StatsMemory> Create(const StatsInfo& info);

  // For StatsView::Adopt(), and for `tenon top`, which finds it in /proc. Still
  // owned here.
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

// A reader's end, which may outlive the writer.
// Ownership: owns the mapping.
// Threads: thread-compatible.
// Trust: the writer may write any words at any time; they are copied and
// checked.
class StatsView {
 public:
  StatsView() = default;
  // Maps it; the descriptor may be closed. Errors: ControlView::Adopt()'s;
  // kDataLoss if it is too small or malformed.
  static absl::StatusOr<StatsView> Adopt(int fd);

  bool has_memory() const { return view_.data() != nullptr; }
  const std::byte* data() const { return view_.data(); }
  size_t size_bytes() const { return view_.size_bytes(); }
  // The current stage and its beginning; each read on its own, so they may be
  // of two stages.
  Stage stage() const;
  int64_t since_ns() const;
  uint64_t batches() const;

 private:
  uint64_t Load(size_t word) const;

  ControlView view_;
};

// Copies the words of a memory, while its writer may change them. Of a large
// memory, only those that its own number of events needs. One more word is
// kEventsPut as it was after the copy.
// Memory order: each word is loaded with acquire.
std::vector<uint64_t> CopyStatsWords(const std::byte* data, size_t size_bytes);

// The words as values. The consumer's memory also has options of the loader.
struct ParsedStats {
  ProcessStats process;
  StatsInfo info;
  std::vector<uint64_t> taken;  // By worker; of the consumer.
  uint64_t ready_sum = 0;
  uint64_t ready_count = 0;
};
// Parses words of CopyStatsWords(), of any contents. Times and counts are
// limited so that no sum or difference of them overflows. Events that the
// writer may have changed during the copy are dropped. Errors: kDataLoss for
// words of another layout or version.
absl::StatusOr<ParsedStats> ParseStats(const std::vector<uint64_t>& words);

// Joins the counters of a loader's consumer and its workers, each with a number
// of its own. `now_ns` becomes taken_at_ns.
LoaderStats JoinStats(const ParsedStats& consumer,
                      std::vector<ParsedStats> workers, int64_t now_ns);

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_STATS_MEMORY_H_
