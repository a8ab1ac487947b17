// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LocalSource: makes batches in the consumer itself, one when it is asked for.
// What a loader without workers uses.

#ifndef TENON_LOADER_LOCAL_SOURCE_H_
#define TENON_LOADER_LOCAL_SOURCE_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/loader/data/shard_order.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/worker/fill_batch.h"
#include "tenon/loader/worker/sample_threads.h"
#include "tenon/loader/worker/shard_reader.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {

// Batches are blocks of an arena, as those of workers: so they can be sent to
// other processes without a copy, and their memory is reused.
class LocalSource : public BatchSource {
 public:
  struct Options {
    uint64_t seed = 0;
    OnSampleError on_error = OnSampleError::kFail;
    bool drop_last = false;  // Of an iterable dataset: that of each shard.
    SharingStrategy strategy = SharingStrategy::kFileDescriptor;
    // GetWorkerInfo() of a stream that divides itself (kShardPerWorker).
    std::optional<WorkerInfo> worker_info = {};
    // That make the samples of a batch; 1: the consumer alone.
    int threads = 1;
    StageMeter* meter = nullptr;  // Must outlive it.
  };

  // `dataset` and `cancellation` must outlive it. Errors: Arena::Create()'s,
  // SampleThreads::Create()'s.
  static absl::StatusOr<std::unique_ptr<LocalSource>> Create(
      Dataset* dataset, std::shared_ptr<const BatchLayout> layout,
      const Options& options, const Cancellation* cancellation);

  void StartEpoch(const EpochPlan& plan) override;
  // Computes the batch; the deadline cannot interrupt the dataset.
  absl::StatusOr<std::optional<BatchResult>> Next(Deadline deadline) override;
  std::vector<pid_t> WorkerPids() const override { return {}; }

 private:
  LocalSource(Dataset* dataset, std::shared_ptr<const BatchLayout> layout,
              const Options& options, std::shared_ptr<Arena> arena,
              std::unique_ptr<SampleThreads> threads,
              const Cancellation* cancellation)
      : dataset_(dataset),
        iterable_(dynamic_cast<IterableDataset*>(dataset)),
        layout_(std::move(layout)),
        scratch_(layout_.get()),
        block_bytes_(static_cast<size_t>(layout_->total_bytes())),
        options_(options),
        arena_(std::move(arena)),
        threads_(std::move(threads)),
        cancellation_(cancellation) {}

  // Nothing if the lane, which comes next, has ended.
  absl::StatusOr<std::optional<Batch>> MakeOfShard(int64_t lane,
                                                   int64_t number);
  absl::StatusOr<std::optional<Batch>> Make(int64_t number);
  absl::StatusOr<Tensor> NewBlock(size_t bytes);
  // Exchanges the block for a larger one if the batch needs that.
  absl::Status Collate(int64_t samples, Tensor& block);
  StageMeter& meter() { return *options_.meter; }
  SampleScratch* scratch() {
    return layout_->varying() > 0 ? &scratch_ : nullptr;
  }

  Dataset* dataset_;
  IterableDataset* iterable_;  // Null for a map-style dataset.
  std::shared_ptr<const BatchLayout> layout_;
  SampleScratch scratch_;
  size_t block_bytes_;  // Of the next block.
  Options options_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<SampleThreads> threads_;  // Null: the consumer alone.
  const Cancellation* cancellation_;
  EpochPlan plan_;
  int64_t next_ = 0;
  ShardOrder shard_order_;
  std::unique_ptr<ShardReader> shards_;  // Of the epoch.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_LOCAL_SOURCE_H_
