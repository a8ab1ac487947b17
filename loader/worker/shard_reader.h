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
#include "tenon/loader/worker/fill_batch.h"

namespace tenon::loader {

// The next batch of a shard.
struct ShardTask {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t shard = 0;
  int64_t samples = 1;  // At most.
  OnSampleError on_error = OnSampleError::kFail;
  bool drop_last = false;  // Drops a last batch of fewer samples.
  // For what differs in shape, if anything does.
  SampleScratch* scratch = nullptr;
};

// One epoch: the first batch of each shard opens it.
// Ownership: owns the open streams. Threads: thread-compatible.
class ShardReader {
 public:
  // `dataset` and `layout` must outlive it.
  ShardReader(IterableDataset* dataset, const BatchLayout* layout)
      : dataset_(dataset), layout_(layout) {}

  // Writes the samples of the shard's next batch to `memory`
  // (layout->total_bytes() of it) and task.scratch; nothing if the shard has
  // ended. Calls `should_stop` before each SampleStream::Next(). Errors: those
  // of the dataset, which end the shard; kInternal for an exception in it;
  // kCancelled if should_stop() returned true.
  absl::StatusOr<std::optional<FilledBatch>> Fill(
      const ShardTask& task, std::byte* memory,
      absl::FunctionRef<bool()> should_stop);

  // Whether Fill() has read the shard to its end, or it was closed.
  bool HasEnded(int64_t shard) const;
  // Ends a shard, which has no other batch then.
  void Close(int64_t shard) { shards_[shard].stream.reset(); }

 private:
  struct Shard {
    std::unique_ptr<SampleStream> stream;  // Null after the end.
    int64_t next = 0;                      // The number of the next sample.
  };

  absl::Status Open(const ShardTask& task, Shard& shard);
  // Whether there was a sample, good or skipped.
  absl::StatusOr<bool> FillOne(const ShardTask& task, Shard& shard,
                               std::byte* memory, FilledBatch& filled);

  IterableDataset* dataset_;
  const BatchLayout* layout_;
  absl::flat_hash_map<int64_t, Shard> shards_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_SHARD_READER_H_
