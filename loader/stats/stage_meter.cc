// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/stage_meter.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stats_layout.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/time_histogram.h"

namespace tenon::loader {

void StageMeter::BeginBatch(Stage first) {
  int64_t now = 0;
  if (timed_) {
    now = clock_();
    Record(now);
    timed_ = false;
  }
  measured_ = to_skip_ == 0;
  if (!measured_) {
    --to_skip_;
    ++skipped_;
    stage_ = first;
    Store(StatsWord::kStage, static_cast<uint64_t>(first));
    return;
  }
  if (now == 0) now = clock_();
  weight_ = static_cast<uint64_t>(skipped_) + 1;
  // How long a batch takes, those that were passed over included.
  const int64_t each = begun_ns_ == 0
                           ? kShort
                           : (now - begun_ns_) / static_cast<int64_t>(weight_);
  begun_ns_ = now;
  skipped_ = 0;
  if (each < kShort) {
    const int64_t skip =
        std::min(kMostSkipped, kInterval / std::max<int64_t>(each, 1));
    // Half to one and a half times as many, at random: batches may take turns.
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    to_skip_ = skip / 2 + static_cast<int64_t>(
                              random_ % (static_cast<uint64_t>(skip) + 1));
  }
  timed_ = true;
  stage_ = first;
  stage_weight_ = weight_;
  entered_ns_ = now;
  Store(StatsWord::kStage, static_cast<uint64_t>(first));
  Store(StatsWord::kSinceNs, static_cast<uint64_t>(now));
}

void StageMeter::EnterTimed(Stage stage) {
  if (words_ == nullptr) return;
  if (timed_ && stage_ == stage) {
    // The sleep after a spin: of this batch alone.
    stage_weight_ = 1;
    return;
  }
  Switch(stage, true, 1);
}

void StageMeter::Pause() {
  if (words_ == nullptr) return;
  Switch(Stage::kUse, false, 1);
  measured_ = false;
  // The time of a pause is not that of batches.
  begun_ns_ = 0;
  skipped_ = 0;
  to_skip_ = 0;
}

void StageMeter::Switch(Stage next, bool timed, uint64_t weight) {
  const int64_t now = clock_();
  if (timed_) Record(now);
  timed_ = timed;
  stage_ = next;
  stage_weight_ = weight;
  entered_ns_ = now;
  Store(StatsWord::kStage, static_cast<uint64_t>(next));
  Store(StatsWord::kSinceNs, static_cast<uint64_t>(now));
}

void StageMeter::Record(int64_t end_ns) {
  const auto ns =
      static_cast<uint64_t>(std::max<int64_t>(end_ns - entered_ns_, 0));
  reinterpret_cast<TimeWords*>(&words_[StageWordOf(stage_)])
      ->Add(ns, stage_weight_);
  if (events_ == 0) return;
  const uint64_t put = Load(StatsWord::kEventsPut);
  const size_t at = kEventWords + (put & (events_ - 1)) * EventWord::kWords;
  StoreEvent(at + EventWord::kBegin, static_cast<uint64_t>(entered_ns_));
  StoreEvent(at + EventWord::kDurationAndStage,
             ns << EventWord::kStageBits | static_cast<uint64_t>(stage_));
  StoreEvent(at + EventWord::kEpoch, static_cast<uint64_t>(epoch_));
  StoreEvent(at + EventWord::kBatch, static_cast<uint64_t>(batch_));
  StdAtomics::Store(words_[StatsWord::kEventsPut], put + 1,
                    std::memory_order_release);
}

}  // namespace tenon::loader
