// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ShardOrder: the order of the batches of an iterable dataset: one of each
// shard in turn, without the shards that have ended.

#ifndef TENON_LOADER_DATA_SHARD_ORDER_H_
#define TENON_LOADER_DATA_SHARD_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// A value; thread-compatible.
class ShardOrder {
 public:
  ShardOrder() : ShardOrder(0) {}
  // Of every `step`-th of `shards` shards, from `first` on.
  explicit ShardOrder(int64_t shards, int64_t first = 0, int64_t step = 1)
      : shards_(shards),
        first_(first),
        step_(step),
        open_(first < shards ? (shards - first + step - 1) / step : 0),
        next_open_(static_cast<size_t>(open_) + 1) {
    std::iota(next_open_.begin(), next_open_.end(), uint32_t{0});
  }

  // Whether all shards have ended. The next two are for when not.
  bool done() const { return open_ == 0; }
  // The shard of the next batch, and its number in the epoch: shards that have
  // ended leave gaps.
  int64_t shard() const { return first_ + static_cast<int64_t>(at_) * step_; }
  int64_t number() const { return round_ * shards_ + shard(); }

  // Goes on to the next batch.
  void Advance() {
    at_ = FirstOpen(at_ + 1);
    if (at_ + 1 < next_open_.size()) return;
    at_ = FirstOpen(0);
    ++round_;
  }

  // May be repeated for a shard.
  void End(int64_t shard) {
    const auto index = static_cast<size_t>((shard - first_) / step_);
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

  int64_t shards_;
  int64_t first_;
  int64_t step_;
  int64_t open_;
  // Of an open shard its own index, of one that has ended a later one; the last
  // element is the end. Paths are halved as they are followed.
  std::vector<uint32_t> next_open_;
  size_t at_ = 0;
  int64_t round_ = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_SHARD_ORDER_H_
