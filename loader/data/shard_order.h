// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ShardLanes and ShardOrder: the order of the batches of an iterable dataset.
// Lanes are read side by side, the shards of a lane one after the other; a
// batch comes of each lane in turn, without the lanes that have ended.

#ifndef TENON_LOADER_DATA_SHARD_ORDER_H_
#define TENON_LOADER_DATA_SHARD_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// Lane l has the shards l, l + lanes, l + 2 lanes, ... By default each shard is
// a lane of its own.
struct ShardLanes {
  int64_t shards = 0;
  int64_t lanes = 0;

  // The shard after `shard` in its lane, if there is one.
  std::optional<int64_t> After(int64_t shard) const {
    if (lanes <= 0 || shard >= shards - lanes) return std::nullopt;
    return shard + lanes;
  }
  bool Contains(int64_t lane, int64_t shard) const {
    if (shard == lane) return true;
    return lanes > 0 && shard > lane && shard < shards &&
           (shard - lane) % lanes == 0;
  }
};

// Where an epoch that is resumed begins: of n positions, lane l goes on with
// its first batch whose number is at least positions[l % n]. A value.
struct LaneStart {
  int64_t lanes = 0;
  std::vector<int64_t> positions = {};  // None: each lane's first batch.

  bool at_beginning() const { return positions.empty(); }
  // How many batches of the lane come before.
  int64_t BatchesBefore(int64_t lane) const {
    if (positions.empty()) return 0;
    const int64_t position =
        positions[static_cast<size_t>(lane) % positions.size()];
    return position / lanes + (lane < position % lanes ? 1 : 0);
  }
};

// A value; thread-compatible.
class ShardOrder {
 public:
  ShardOrder() : ShardOrder(0) {}
  // Of every `step`-th of `lanes` lanes, from `first` on.
  explicit ShardOrder(int64_t lanes, int64_t first = 0, int64_t step = 1,
                      LaneStart start = {})
      : lanes_(lanes),
        first_(first),
        step_(step),
        open_(first < lanes ? (lanes - first + step - 1) / step : 0),
        next_open_(static_cast<size_t>(open_) + 1),
        start_(std::move(start)) {
    std::iota(next_open_.begin(), next_open_.end(), uint32_t{0});
    if (start_.at_beginning() || done()) return;
    for (int64_t l = first_; l < lanes_; l += step_) {
      all_begun_ = std::max(all_begun_, start_.BatchesBefore(l));
    }
    round_ = FirstRound();
    PassOverBatchesBefore();
  }

  // Whether all lanes have ended. The next two are for when not.
  bool done() const { return open_ == 0; }
  // The lane of the next batch, and its number in the epoch: lanes that have
  // ended, and those of other steps, leave gaps.
  int64_t lane() const { return first_ + static_cast<int64_t>(at_) * step_; }
  int64_t number() const { return round_ * lanes_ + lane(); }

  // Goes on to the next batch.
  void Advance() {
    Step();
    PassOverBatchesBefore();
  }

  // May be repeated for a lane.
  void End(int64_t lane) {
    const auto index = static_cast<size_t>((lane - first_) / step_);
    if (next_open_[index] != index) return;
    ++next_open_[index];
    --open_;
    if (index == at_ && !done()) Advance();
  }

 private:
  void Step() {
    at_ = FirstOpen(at_ + 1);
    if (at_ + 1 < next_open_.size()) return;
    at_ = FirstOpen(0);
    ++round_;
  }

  void PassOverBatchesBefore() {
    while (round_ < all_begun_ && round_ < start_.BatchesBefore(lane())) {
      const int64_t round = round_;
      Step();
      // At once, however far away that round is.
      if (round_ != round) round_ = std::max(round_, FirstRound());
    }
  }

  // The first one in which an open lane has a batch. There is an open lane.
  int64_t FirstRound() {
    int64_t first = std::numeric_limits<int64_t>::max();
    for (size_t i = FirstOpen(0); i + 1 < next_open_.size();
         i = FirstOpen(i + 1)) {
      first = std::min(first, start_.BatchesBefore(
                                  first_ + static_cast<int64_t>(i) * step_));
    }
    return first;
  }

  size_t FirstOpen(size_t index) {
    while (next_open_[index] != index) {
      next_open_[index] = next_open_[next_open_[index]];
      index = next_open_[index];
    }
    return index;
  }

  int64_t lanes_;
  int64_t first_;
  int64_t step_;
  int64_t open_;
  // Of an open lane its own index, of one that has ended a later one; the last
  // element is the end. Paths are halved as they are followed.
  std::vector<uint32_t> next_open_;
  size_t at_ = 0;
  int64_t round_ = 0;
  LaneStart start_;
  int64_t all_begun_ = 0;  // The round from which on all lanes have batches.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_SHARD_ORDER_H_
