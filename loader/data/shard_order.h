// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ShardLanes and ShardOrder: the order of the batches of an iterable dataset.
// Lanes are read side by side, the shards of a lane one after the other; a
// batch comes of each lane in turn, without the lanes that have ended.

#ifndef TENON_LOADER_DATA_SHARD_ORDER_H_
#define TENON_LOADER_DATA_SHARD_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
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

// A value; thread-compatible.
class ShardOrder {
 public:
  ShardOrder() : ShardOrder(0) {}
  // Of every `step`-th of `lanes` lanes, from `first` on.
  explicit ShardOrder(int64_t lanes, int64_t first = 0, int64_t step = 1)
      : lanes_(lanes),
        first_(first),
        step_(step),
        open_(first < lanes ? (lanes - first + step - 1) / step : 0),
        next_open_(static_cast<size_t>(open_) + 1) {
    std::iota(next_open_.begin(), next_open_.end(), uint32_t{0});
  }

  // Whether all lanes have ended. The next two are for when not.
  bool done() const { return open_ == 0; }
  // The lane of the next batch, and its number in the epoch: lanes that have
  // ended, and those of other steps, leave gaps.
  int64_t lane() const { return first_ + static_cast<int64_t>(at_) * step_; }
  int64_t number() const { return round_ * lanes_ + lane(); }

  // Goes on to the next batch.
  void Advance() {
    at_ = FirstOpen(at_ + 1);
    if (at_ + 1 < next_open_.size()) return;
    at_ = FirstOpen(0);
    ++round_;
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
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_SHARD_ORDER_H_
