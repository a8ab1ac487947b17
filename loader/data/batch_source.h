// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BatchSource: what makes a loader's batches, in this process or in others.

#ifndef TENON_LOADER_DATA_BATCH_SOURCE_H_
#define TENON_LOADER_DATA_BATCH_SOURCE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/shard_order.h"
#include "tenon/loader/sampling/batch_sampler.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::loader {

// An epoch, cut into batches: those of a sampler or a batch sampler, or of the
// shards of an iterable dataset, whose number is not known.
struct EpochPlan {
  int64_t epoch = 0;
  int64_t shards = 0;  // Of an iterable dataset; 0: of a sampler.
  // Of an iterable dataset: its lanes (shard_order.h), and which are to be
  // read: every `lane_step`-th, from `first_lane` on.
  int64_t lanes = 0;
  int64_t first_lane = 0;
  int64_t lane_step = 1;
  LaneStart start = {};  // Where the lanes begin, if not at their beginning.
  Sampler* sampler = nullptr;
  BatchSampler* batch_sampler = nullptr;  // In place of `sampler`.
  int64_t dataset_size = 0;
  int64_t batch_size = 1;
  int64_t batches = 0;
  // The number of the sampler's first batch: not 0 in an epoch that is resumed,
  // which has those before `batches` only.
  int64_t first_batch = 0;
  // The first batches of an epoch that is resumed are these: positions
  // [first, end) of `missing_from`, batch_size in each batch, or batches
  // [first, end) of `missing_batches_from`.
  struct Missing {
    int64_t first = 0;
    int64_t end = 0;
    int64_t batches_before = 0;  // Those of the ranges before it.
  };
  std::vector<Missing> missing = {};
  int64_t missing_batches = 0;  // Of all ranges.
  Sampler* missing_from = nullptr;
  BatchSampler* missing_batches_from = nullptr;
  // If this is an epoch that is resumed: the plan of others, from their
  // beginning. Outlives this.
  const EpochPlan* whole = nullptr;

  struct Items {
    std::vector<int64_t> indices;  // In the dataset.
    // Of the first sample, in the epoch of the whole job; the others follow.
    int64_t first_position = 0;
  };
  // Those of batch `number`, in [first_batch, batches).
  // Errors: kOutOfRange if the sampler gives one that is not in the dataset;
  // kInvalidArgument if the positions of the batch do not follow one another,
  // because the sampler is for another batch size, and for a batch of a batch
  // sampler that is empty or larger than batch_size; kInternal for an exception
  // of the sampler.
  absl::StatusOr<Items> ItemsOf(int64_t number) const;
  // Batch `n` of the missing ones, in [0, missing_batches): its positions, or
  // its number.
  Missing MissingBatch(int64_t n) const;

 private:
  absl::StatusOr<Items> FromMissing(int64_t number) const;
  absl::StatusOr<Items> FromSampler(int64_t number) const;
  // Batch `number` of the epoch, which is batch `n` of `from`.
  absl::StatusOr<Items> FromBatchSampler(int64_t number, BatchSampler& from,
                                         int64_t n) const;
};

// A batch, or its own error.
struct BatchResult {
  absl::StatusOr<Batch> batch;
  int64_t number = 0;  // In the epoch, of an error, too.
};

// Threads: thread-compatible.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // Begins an epoch; one that has not been finished is abandoned.
  virtual void StartEpoch(const EpochPlan& plan) = 0;

  // The next batch, in order or as ready; if it is an error, the following one
  // may be good.
  // Nothing at the end of the epoch. Errors: kDeadlineExceeded, after which it
  // may be called again; after any other it must not be.
  virtual absl::StatusOr<std::optional<BatchResult>> Next(
      Deadline deadline) = 0;

  // The workers' processes by number; empty if there are none.
  virtual std::vector<pid_t> WorkerPids() const = 0;

  // How many workers make batches now, and why so many, if it chooses that.
  virtual int Workers() const { return 0; }
  virtual std::string Tuning() const { return ""; }

  // How the workers ended that were replaced, the last one last, and how many
  // there were.
  virtual std::vector<absl::Status> Incidents() const { return {}; }
  virtual int64_t Replaced() const { return 0; }
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_BATCH_SOURCE_H_
