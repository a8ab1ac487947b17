// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StageMeter: measures the stages of a thread that makes or takes batches, into
// memory that other processes may map (stats_memory.h).
//
//   meter.Begin(Stage::kQueue);                      // The next batch.
//   if (!ready) { meter.EnterTimed(Stage::kWait); Wait(); }
//   meter.Enter(Stage::kLoad);
//   Fill();
//   meter.Enter(Stage::kQueue);
//   meter.Done(samples);
//
// Reading the clock takes 20 to 40 ns, and the smallest batch 800. So the
// stages of a batch are measured all or not at all: of batches that follow one
// another in less than kShort, about one in each kInterval, at random, which
// then also counts for the batches before it that were not measured. Sums and
// histograms are exact for longer batches, and estimates without bias for
// shorter ones. EnterTimed(), for waits that sleep, is measured in every batch.
// Counts of batches and samples, and the current stage, are exact.

#ifndef TENON_LOADER_STATS_STAGE_METER_H_
#define TENON_LOADER_STATS_STAGE_METER_H_

#include <atomic>
#include <cstdint>

#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stats_layout.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/monotonic_ns.h"

namespace tenon::loader {

// Ownership: the memory is not owned, and must outlive the meter.
// Threads: thread-compatible. Only one meter may write a memory.
// Memory order: each word is written atomically. A reader that sees an event of
//   kEventsPut sees all of its words (stats_memory.h).
class StageMeter {
 public:
  using Clock = int64_t (*)();
  static constexpr int64_t kShort = 50'000;      // ns
  static constexpr int64_t kInterval = 200'000;  // ns
  static constexpr int64_t kMostSkipped = 255;

  // A meter without memory: calls have no effect.
  StageMeter() = default;
  // `words` are laid out as in stats_layout.h, with room for `events` events (a
  // power of two, or 0).
  explicit StageMeter(SharedWord<uint64_t>* words, uint64_t events,
                      Clock clock = &MonotonicNs)
      : words_(words), events_(events), clock_(clock) {}

  // Begins a batch, in this stage.
  void Begin(Stage first) {
    if (words_ != nullptr) BeginBatch(first);
  }
  // Names the current batch, for reports.
  void SetBatch(int64_t epoch, int64_t batch) {
    if (words_ == nullptr) return;
    Store(StatsWord::kEpoch, static_cast<uint64_t>(epoch));
    Store(StatsWord::kBatch, static_cast<uint64_t>(batch));
    epoch_ = epoch;
    batch_ = batch;
  }
  // Ends the current stage and begins another one.
  void Enter(Stage stage) {
    if (words_ == nullptr) return;
    if (measured_ || timed_) {
      Switch(stage, measured_, weight_);
    } else {
      stage_ = stage;
      Store(StatsWord::kStage, static_cast<uint64_t>(stage));
    }
  }
  // As Enter(), and measured also if the batch is not.
  void EnterTimed(Stage stage);
  // Counts the current batch as made, or returned.
  void Done(uint64_t samples) {
    if (words_ == nullptr) return;
    Add(StatsWord::kBatches, 1);
    Add(StatsWord::kSamples, samples);
  }
  // Ends the current stage. The time until the next Begin() counts for no
  // stage; the current stage is kUse until then.
  void Pause();

  // Whether the current batch is measured.
  bool measured() const { return measured_; }
  // Adds to the mean of finished batches. Only for a batch that is measured.
  void AddReady(uint64_t ready) {
    Add(StatsWord::kReadySum, ready);
    Add(StatsWord::kReadyCount, 1);
  }
  // For the consumer: how many batches of the worker it has taken.
  void SetTaken(int worker, uint64_t taken) {
    if (words_ != nullptr) Store(TakenWord(worker), taken);
  }

 private:
  void BeginBatch(Stage first);
  void Switch(Stage next, bool timed, uint64_t weight);
  void Record(int64_t end_ns);

  // After all earlier stores: an event is not overwritten before kEventsPut has
  // counted the one before it.
  void StoreEvent(size_t word, uint64_t value) {
    StdAtomics::Store(words_[word], value, std::memory_order_release);
  }
  void Store(size_t word, uint64_t value) {
    StdAtomics::Store(words_[word], value, std::memory_order_relaxed);
  }
  uint64_t Load(size_t word) const {
    return StdAtomics::Load(words_[word], std::memory_order_relaxed);
  }
  // Not one atomic step: no other thread writes the word.
  void Add(size_t word, uint64_t value) { Store(word, Load(word) + value); }

  SharedWord<uint64_t>* words_ = nullptr;
  uint64_t events_ = 0;
  Clock clock_ = &MonotonicNs;
  Stage stage_ = Stage::kStart;
  bool measured_ = false;  // The batch is.
  bool timed_ = false;     // The stage is, since entered_ns_.
  uint64_t weight_ = 1;    // Of a stage in a measured batch.
  uint64_t stage_weight_ = 1;
  int64_t entered_ns_ = 0;
  int64_t epoch_ = -1;
  int64_t batch_ = -1;
  // Batches between two that are measured.
  int64_t to_skip_ = 0;
  int64_t skipped_ = 0;
  int64_t begun_ns_ = 0;  // The last measured one; 0: none.
  uint64_t random_ = 0x9E3779B97F4A7C15;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_STAGE_METER_H_
