// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DistributedSampler: the part of an order that belongs to one rank of a job.
//
//   TENON_ASSIGN_OR_RETURN(Rank rank, FindRank());  // loader/job/job.h
//   TENON_ASSIGN_OR_RETURN(
//       auto order, RandomSampler::Create({.dataset_size = 50'000}));
//   TENON_ASSIGN_OR_RETURN(
//       auto sampler, DistributedSampler::Create(std::move(order), rank,
//                                                {.batch_size = 64}));

#ifndef TENON_LOADER_SAMPLING_DISTRIBUTED_SAMPLER_H_
#define TENON_LOADER_SAMPLING_DISTRIBUTED_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/sampling/remainder.h"
#include "tenon/loader/sampling/sampler.h"

namespace tenon::loader {

struct DistributedSamplerOptions {
  // The loader's batch size: batches of the order go to the ranks in turn. With
  // 1 samples do, as in torch's DistributedSampler.
  int64_t batch_size = 1;
  Remainder remainder = Remainder::kPad;
};

// With W ranks, batch k of rank r is batch k * W + r of the order. So the
// batches of all ranks, one of each rank in turn, are the batches of an epoch
// of one process, for any number of ranks. The last samples, fewer than W
// batches, are divided into W equal parts, one after another.
//
// All ranks have the same number of samples and of full batches, and a last
// batch of the same size. The global positions of a batch's samples follow one
// another. The epoch is an argument of Fill(), so there is no set_epoch() to be
// forgotten.
class DistributedSampler : public Sampler {
 public:
  // `order` must be the same on each rank, its seed included.
  // Errors: kInvalidArgument for a null `order` and a batch_size below 1;
  // CheckRank()'s.
  static absl::StatusOr<std::unique_ptr<DistributedSampler>> Create(
      std::unique_ptr<Sampler> order, const Rank& rank,
      const DistributedSamplerOptions& options = {});

  int64_t size() const override;
  void Fill(int64_t epoch, int64_t first, absl::Span<int64_t> indices) override;
  // At least the order's size() for a sample of Remainder::kPad.
  int64_t GlobalPosition(int64_t position) const override;
  Sampler& Whole() override { return *order_; }
  // Nothing in the middle of a batch.
  std::optional<int64_t> WholePosition(int64_t position) const override;
  // The samples from `start` on are divided as an epoch of that many samples,
  // so a job may go on with other numbers of ranks and batch sizes.
  std::unique_ptr<Sampler> From(int64_t start) override;

 private:
  // Of `order` from `start` on.
  DistributedSampler(std::shared_ptr<Sampler> order, int64_t start,
                     int64_t rank, int64_t world_size,
                     const DistributedSamplerOptions& options);

  std::shared_ptr<Sampler> order_;
  int64_t start_;
  int64_t rank_;
  int64_t world_size_;
  int64_t batch_size_;
  Remainder remainder_;
  int64_t steps_;  // In which each rank has a full batch.
  int64_t rest_;   // Samples of each rank after them.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_DISTRIBUTED_SAMPLER_H_
