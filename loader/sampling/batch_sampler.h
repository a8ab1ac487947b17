// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BatchSampler: which items form each batch of an epoch, for batches of any
// sizes.

#ifndef TENON_LOADER_SAMPLING_BATCH_SAMPLER_H_
#define TENON_LOADER_SAMPLING_BATCH_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/sampling/remainder.h"
#include "tenon/loader/sampling/sampler.h"

namespace tenon::loader {

// The batches of an epoch, as a function of the epoch alone.
// Threads, processes, failure: as a Sampler.
class BatchSampler {
 public:
  virtual ~BatchSampler() = default;

  // The number of batches of an epoch. The same for each epoch.
  virtual int64_t size() const = 0;

  // Replaces `indices` by the dataset indices of batch `number`, in [0,
  // size()), of `epoch`: 1 to max_batch_size() of them.
  virtual void Fill(int64_t epoch, int64_t number,
                    std::vector<int64_t>& indices) = 0;

  // The most samples of a batch, at least 1. Each batch has memory for so many.
  // The same for each epoch.
  virtual int64_t max_batch_size() const = 0;

  // The position that keys the random numbers of the first sample of batch
  // `number`; those of the other samples follow it. Must differ for each sample
  // of an epoch, and be the same for any number of ranks. Unless overridden,
  // `number` * 2^32, for up to 2^31 batches of up to 2^32 samples.
  virtual int64_t FirstPosition(int64_t number) const { return number << 32; }

  // For Loader::State() and Load(). As the functions of a Sampler, in batches
  // instead of samples: the batches of the whole job; how many of them all
  // ranks have together when each has the first `number` batches of its slice;
  // and this rank's slice without the first `start` batches of Whole().
  virtual BatchSampler& Whole() { return *this; }
  virtual std::optional<int64_t> WholePosition(int64_t number) const {
    return number;
  }
  virtual std::unique_ptr<BatchSampler> From(int64_t start);
};

// Batches of one size, cut from an order.
class FixedBatchSampler : public BatchSampler {
 public:
  // `drop_last`: drops the last batch if it is not full.
  // Errors: kInvalidArgument for a null `order`, a batch_size below 1, and an
  // `order` that is a DistributedSampler with another batch_size, so that one
  // of the first 4096 batches has samples of several batches of the job.
  static absl::StatusOr<std::unique_ptr<FixedBatchSampler>> Create(
      std::unique_ptr<Sampler> order, int64_t batch_size,
      bool drop_last = false);

  int64_t size() const override;
  int64_t max_batch_size() const override { return batch_size_; }
  void Fill(int64_t epoch, int64_t number,
            std::vector<int64_t>& indices) override;
  int64_t FirstPosition(int64_t number) const override;
  BatchSampler& Whole() override;
  std::optional<int64_t> WholePosition(int64_t number) const override;
  std::unique_ptr<BatchSampler> From(int64_t start) override;

 private:
  FixedBatchSampler(std::shared_ptr<Sampler> order, int64_t batch_size,
                    bool drop_last);

  std::shared_ptr<Sampler> order_;
  int64_t batch_size_;
  bool drop_last_;
  std::unique_ptr<FixedBatchSampler> whole_;  // Of a slice.
};

// The batches of one rank of a job of W ranks: batch k of rank r is batch
// k * W + r of `batches`. All ranks have the same number of batches.
class DistributedBatchSampler : public BatchSampler {
 public:
  // `batches` must be the same on each rank. With Remainder::kPad the first
  // batches of the epoch fill up the last step, with random numbers of their
  // own.
  // Errors: kInvalidArgument for null `batches`; CheckRank()'s.
  static absl::StatusOr<std::unique_ptr<DistributedBatchSampler>> Create(
      std::unique_ptr<BatchSampler> batches, const Rank& rank,
      Remainder remainder = Remainder::kPad);

  int64_t size() const override { return size_; }
  int64_t max_batch_size() const override { return batches_->max_batch_size(); }
  void Fill(int64_t epoch, int64_t number,
            std::vector<int64_t>& indices) override;
  int64_t FirstPosition(int64_t number) const override;
  BatchSampler& Whole() override { return *batches_; }
  std::optional<int64_t> WholePosition(int64_t number) const override;
  std::unique_ptr<BatchSampler> From(int64_t start) override;

 private:
  // Of `batches` from `start` on.
  DistributedBatchSampler(std::shared_ptr<BatchSampler> batches, int64_t start,
                          int64_t rank, int64_t world_size,
                          Remainder remainder);

  std::shared_ptr<BatchSampler> batches_;
  int64_t start_;
  int64_t rank_;
  int64_t world_size_;
  Remainder remainder_;
  int64_t size_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_BATCH_SAMPLER_H_
