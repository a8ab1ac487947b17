// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ShardReader: makes the batches of an iterable dataset's shards, with workers
// and without.

#ifndef TENON_LOADER_WORKER_SHARD_READER_H_
#define TENON_LOADER_WORKER_SHARD_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/on_sample_error.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/loader/data/shard_order.h"
#include "tenon/loader/worker/fill_batch.h"
#include "tenon/shm/base/atomics.h"

namespace tenon::loader {

// The next batch of a lane.
struct ShardTask {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t lane = 0;
  // How many batches of the lane come before this one. Those that this reader
  // has not made were received before the epoch was resumed, or the worker was
  // started, and are passed over.
  int64_t before = 0;
  int64_t samples = 1;  // At most.
  OnSampleError on_error = OnSampleError::kFail;
  bool drop_last = false;  // Drops a last batch of fewer samples.
  // For what differs in shape, if anything does.
  SampleScratch* scratch = nullptr;
  // As BatchTask::now.
  SharedWord<uint64_t>* now = nullptr;
};

// One epoch. A shard is opened by the first batch that needs it, when the one
// before it in its lane has ended.
// Ownership: owns the open streams. Threads: thread-compatible.
class ShardReader {
 public:
  // `dataset` and `layout` must outlive it.
  ShardReader(IterableDataset* dataset, const BatchLayout* layout,
              const ShardLanes& lanes)
      : dataset_(dataset), layout_(layout), lanes_(lanes) {}

  // Writes the samples of the lane's next batch to `memory`
  // (layout->total_bytes() of it) and task.scratch; nothing if the lane has
  // ended. Batches before it are passed over by SampleStream::Skip(); samples
  // that Skip() leaves are made and dropped, and their errors, too. Calls
  // `should_stop` before each SampleStream::Next(). Errors: those of the
  // dataset, which end the shard, and of Skip(), which end the lane; kInternal
  // for an exception; kCancelled if should_stop() returned true, after which
  // the lane must not be read.
  absl::StatusOr<std::optional<FilledBatch>> Fill(
      const ShardTask& task, std::byte* memory,
      absl::FunctionRef<bool()> should_stop);

  // Whether Fill() has read the lane's last shard to its end, or it was closed.
  bool HasEnded(int64_t lane) const;
  // The lane's batch after `before` others fails: ends the shard that it is of,
  // or, where that is not known yet, passes over it later.
  void CloseShard(int64_t lane, int64_t before = 0);

 private:
  struct Shard {
    bool has_ended() const { return opened && stream == nullptr; }

    int64_t number = 0;
    bool opened = false;
    std::unique_ptr<SampleStream> stream;  // Null before and after.
    int64_t next = 0;                      // The number of the next sample.
    int64_t batches = 0;  // Of its lane: made, failed or passed over.
    bool is_lost =
        false;  // A Skip() failed: where the lane goes on is unknown.
  };

  Shard& ShardOf(int64_t lane) {
    return shards_.try_emplace(lane, Shard{.number = lane}).first->second;
  }
  // The next batch of the lane, made or passed over.
  absl::StatusOr<std::optional<FilledBatch>> NextBatch(
      const ShardTask& task, Shard& shard, std::byte* memory, bool pass_over,
      absl::FunctionRef<bool()> should_stop);
  absl::Status Open(const ShardTask& task, Shard& shard);
  // Nothing if the shard has no other batch.
  absl::StatusOr<std::optional<FilledBatch>> FillFrom(
      const ShardTask& task, Shard& shard, std::byte* memory, bool pass_over,
      absl::FunctionRef<bool()> should_stop);
  // Passes over up to `samples`, by SampleStream::Skip(); returns how many.
  static absl::StatusOr<int64_t> Skip(Shard& shard, int64_t samples);
  // Whether there was a sample, good or skipped.
  absl::StatusOr<bool> FillOne(const ShardTask& task, Shard& shard,
                               std::byte* memory, FilledBatch& filled);

  IterableDataset* dataset_;
  const BatchLayout* layout_;
  const ShardLanes lanes_;
  absl::flat_hash_map<int64_t, Shard> shards_;  // The current ones, by lane.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_SHARD_READER_H_
