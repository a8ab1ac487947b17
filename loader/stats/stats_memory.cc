// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/stats_memory.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/stats/stats_layout.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon::loader {
namespace {

using Word = SharedWord<uint64_t>;

constexpr size_t kNameBytes = StatsWord::kNameWords * sizeof(uint64_t);
static_assert(StatsWord::kName + StatsWord::kNameWords <= StatsWord::kStage);
static_assert(StatsWord::kEventsPut < StatsWord::kFirstStage);
static_assert(kStages <= size_t{1} << EventWord::kStageBits);

Word* WordsOf(std::byte* data) { return reinterpret_cast<Word*>(data); }
const Word* WordsOf(const std::byte* data) {
  return reinterpret_cast<const Word*>(data);
}

Stage StageOf(uint64_t word) {
  return word < kStages ? static_cast<Stage>(word) : Stage::kStart;
}

int SmallInt(uint64_t word, int most) {
  return static_cast<int>(std::min(word, static_cast<uint64_t>(most)));
}

// A time of the clock. Differences of two do not overflow.
int64_t TimeOf(uint64_t word) {
  return static_cast<int64_t>(
      std::min(word, uint64_t{std::numeric_limits<int64_t>::max()}));
}

// The events that were complete when kEventsPut was read, and that none has
// replaced since: `put` and `again` are that word before and after the others.
std::vector<StageEvent> EventsOf(const std::vector<uint64_t>& words,
                                 uint64_t events, uint64_t put,
                                 uint64_t again) {
  std::vector<StageEvent> list;
  if (events == 0) return list;
  // The one that is being written replaces another one already.
  const uint64_t first = again >= events ? again - events + 1 : 0;
  put = std::min(put, again);
  for (uint64_t i = first; i < put; ++i) {
    const size_t at = kEventWords + (i & (events - 1)) * EventWord::kWords;
    const uint64_t packed = words[at + EventWord::kDurationAndStage];
    list.push_back(
        {.stage =
             StageOf(packed & ((uint64_t{1} << EventWord::kStageBits) - 1)),
         .begin_ns = static_cast<int64_t>(words[at + EventWord::kBegin]),
         .duration_ns = packed >> EventWord::kStageBits,
         .epoch = static_cast<int64_t>(words[at + EventWord::kEpoch]),
         .batch = static_cast<int64_t>(words[at + EventWord::kBatch])});
  }
  return list;
}

}  // namespace

absl::StatusOr<StatsMemory> StatsMemory::Create(const StatsInfo& info) {
  const uint64_t events =
      info.events <= 0
          ? 0
          : std::min(std::bit_ceil(static_cast<uint64_t>(info.events)),
                     kMaxStatsEvents);
  const size_t bytes = StatsWords(events) * sizeof(uint64_t);
  TENON_ASSIGN_OR_RETURN(
      ControlMemory memory,
      ControlMemory::Create(
          bytes, info.worker < 0 ? kConsumerStatsLabel : kWorkerStatsLabel));
  TENON_RETURN_IF_ERROR(memory.Reserve({0, bytes}));
  Word* const words = WordsOf(memory.data());
  const auto store = [&](size_t word, uint64_t value) {
    StdAtomics::Store(words[word], value, std::memory_order_relaxed);
  };
  const int64_t now = MonotonicNs();
  store(StatsWord::kLoaderHigh, info.loader.high);
  store(StatsWord::kLoaderLow, info.loader.low);
  store(StatsWord::kPid, static_cast<uint64_t>(getpid()));
  store(StatsWord::kWorker, static_cast<uint64_t>(info.worker) + 1);
  store(StatsWord::kWorkers, static_cast<uint64_t>(info.workers));
  store(StatsWord::kPrefetch, static_cast<uint64_t>(info.prefetch));
  store(StatsWord::kBatchSize, static_cast<uint64_t>(info.batch_size));
  store(StatsWord::kInOrder, info.in_order ? 1 : 0);
  store(StatsWord::kCores, static_cast<uint64_t>(info.cores));
  store(StatsWord::kStartedNs, static_cast<uint64_t>(now));
  store(StatsWord::kEvents, events);
  uint64_t name[StatsWord::kNameWords] = {};
  std::memcpy(name, info.dataset.data(),
              std::min(info.dataset.size(), kNameBytes));
  for (size_t i = 0; i < StatsWord::kNameWords; ++i) {
    store(StatsWord::kName + i, name[i]);
  }
  store(StatsWord::kStage, static_cast<uint64_t>(Stage::kStart));
  store(StatsWord::kSinceNs, static_cast<uint64_t>(now));
  store(StatsWord::kEpoch, static_cast<uint64_t>(int64_t{-1}));
  store(StatsWord::kBatch, static_cast<uint64_t>(int64_t{-1}));
  StdAtomics::Store(words[StatsWord::kMagic], StatsWord::kMagicValue,
                    std::memory_order_release);
  return StatsMemory(std::move(memory), events);
}

StageMeter StatsMemory::meter() const {
  return StageMeter(WordsOf(memory_.data()), events_);
}

absl::StatusOr<StatsView> StatsView::Adopt(int fd) {
  constexpr char kWhat[] = "the counters of a worker";
  TENON_ASSIGN_OR_RETURN(const size_t size, CheckIsControlMemory(fd, kWhat));
  if (size < StatsWords(0) * sizeof(uint64_t)) {
    return absl::DataLossError(absl::StrCat(kWhat, " have ", size,
                                            " bytes; want at least ",
                                            StatsWords(0) * sizeof(uint64_t)));
  }
  StatsView view;
  TENON_ASSIGN_OR_RETURN(view.view_, ControlView::Adopt(fd, {0, size}, kWhat));
  if (view.Load(StatsWord::kMagic) != StatsWord::kMagicValue) {
    return absl::DataLossError(
        absl::StrCat(kWhat, " have the bad magic 0x",
                     absl::Hex(view.Load(StatsWord::kMagic))));
  }
  return view;
}

uint64_t StatsView::Load(size_t word) const {
  return StdAtomics::Load(WordsOf(view_.data())[word],
                          std::memory_order_relaxed);
}
Stage StatsView::stage() const { return StageOf(Load(StatsWord::kStage)); }
int64_t StatsView::since_ns() const {
  return TimeOf(Load(StatsWord::kSinceNs));
}
uint64_t StatsView::batches() const { return Load(StatsWord::kBatches); }

std::vector<uint64_t> CopyStatsWords(const std::byte* data, size_t size_bytes) {
  const Word* const from = WordsOf(data);
  size_t size = size_bytes / sizeof(uint64_t);
  if (size > StatsWord::kEvents) {
    const uint64_t events =
        StdAtomics::Load(from[StatsWord::kEvents], std::memory_order_relaxed);
    size = std::min(size, StatsWords(std::min(events, kMaxStatsEvents)));
  }
  std::vector<uint64_t> words(size);
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = StdAtomics::Load(from[i], std::memory_order_acquire);
  }
  // Copied before the events; one more reading tells which were replaced.
  words.push_back(words.size() > StatsWord::kEventsPut
                      ? StdAtomics::Load(from[StatsWord::kEventsPut],
                                         std::memory_order_acquire)
                      : 0);
  return words;
}

absl::StatusOr<ParsedStats> ParseStats(const std::vector<uint64_t>& words) {
  if (words.size() < StatsWords(0) + 1 ||
      words[StatsWord::kMagic] != StatsWord::kMagicValue) {
    return absl::DataLossError(
        "not the counters of a loader, or of another version");
  }
  const uint64_t events = words[StatsWord::kEvents];
  if (events > kMaxStatsEvents ||
      (events != 0 && !std::has_single_bit(events))) {
    return absl::DataLossError(
        absl::StrCat("counters of a loader with room for ", events, " events"));
  }
  ParsedStats parsed;
  StatsInfo& info = parsed.info;
  ProcessStats& process = parsed.process;
  info.loader = {words[StatsWord::kLoaderHigh], words[StatsWord::kLoaderLow]};
  info.worker = SmallInt(words[StatsWord::kWorker], kMaxStatsWorkers) - 1;
  info.workers = SmallInt(words[StatsWord::kWorkers], kMaxStatsWorkers);
  info.prefetch = SmallInt(words[StatsWord::kPrefetch], 1 << 20);
  info.batch_size = static_cast<int64_t>(words[StatsWord::kBatchSize]);
  info.in_order = words[StatsWord::kInOrder] != 0;
  info.cores = SmallInt(words[StatsWord::kCores], 1 << 20);
  info.events = static_cast<int>(events);
  char name[kNameBytes];
  std::memcpy(name, &words[StatsWord::kName], kNameBytes);
  info.dataset.assign(name, strnlen(name, kNameBytes));
  process.loader = info.loader;
  process.worker = info.worker;
  process.dataset = info.dataset;
  process.pid = static_cast<pid_t>(words[StatsWord::kPid]);
  process.started_ns = TimeOf(words[StatsWord::kStartedNs]);
  process.batches = words[StatsWord::kBatches];
  process.samples = words[StatsWord::kSamples];
  process.stage = StageOf(words[StatsWord::kStage]);
  process.since_ns = TimeOf(words[StatsWord::kSinceNs]);
  process.epoch = static_cast<int64_t>(words[StatsWord::kEpoch]);
  process.batch = static_cast<int64_t>(words[StatsWord::kBatch]);
  for (size_t s = 0; s < kStages; ++s) {
    process.stages[s] = TimeHistogram::FromWords(
        absl::MakeConstSpan(words).subspan(StageWordOf(static_cast<Stage>(s))));
  }
  // A reader that needs no events need not copy them.
  if (words.size() >= StatsWords(events) + 1) {
    process.events =
        EventsOf(words, events, words[StatsWord::kEventsPut], words.back());
  }
  parsed.ready_sum = words[StatsWord::kReadySum];
  parsed.ready_count = words[StatsWord::kReadyCount];
  parsed.taken.assign(words.begin() + kTakenWords,
                      words.begin() + kTakenWords + info.workers);
  return parsed;
}

LoaderStats JoinStats(const ParsedStats& consumer,
                      std::vector<ParsedStats> workers, int64_t now_ns) {
  LoaderStats stats = {.consumer = consumer.process,
                       .workers_configured = consumer.info.workers,
                       .prefetch = consumer.info.prefetch,
                       .batch_size = consumer.info.batch_size,
                       .in_order = consumer.info.in_order,
                       .cores = consumer.info.cores,
                       .taken_at_ns = now_ns,
                       .ready_sum = consumer.ready_sum,
                       .ready_count = consumer.ready_count};
  if (stats.ready_count > 0) {
    stats.ready = static_cast<double>(stats.ready_sum) /
                  static_cast<double>(stats.ready_count);
  }
  std::sort(workers.begin(), workers.end(),
            [](const ParsedStats& a, const ParsedStats& b) {
              return a.process.worker < b.process.worker;
            });
  for (ParsedStats& worker : workers) {
    const auto number = static_cast<size_t>(worker.process.worker);
    const uint64_t taken =
        number < consumer.taken.size() ? consumer.taken[number] : 0;
    stats.ready_now.push_back(
        worker.process.batches > taken ? worker.process.batches - taken : 0);
    stats.workers.push_back(std::move(worker.process));
  }
  return stats;
}

}  // namespace tenon::loader
