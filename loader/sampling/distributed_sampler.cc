// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/distributed_sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {

absl::StatusOr<std::unique_ptr<DistributedSampler>> DistributedSampler::Create(
    std::unique_ptr<Sampler> order, const Rank& rank,
    const DistributedSamplerOptions& options) {
  if (order == nullptr) {
    return absl::InvalidArgumentError(
        "DistributedSampler::Create(): there is no order to divide");
  }
  TENON_RETURN_IF_ERROR(CheckRank("DistributedSampler::Create()", rank));
  if (options.batch_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("DistributedSampler::Create(): batch_size is ",
                     options.batch_size, "; it must be at least 1"));
  }
  return absl::WrapUnique(new DistributedSampler(std::move(order), 0, rank.rank,
                                                 rank.world_size, options));
}

DistributedSampler::DistributedSampler(std::shared_ptr<Sampler> order,
                                       int64_t start, int64_t rank,
                                       int64_t world_size,
                                       const DistributedSamplerOptions& options)
    : order_(std::move(order)),
      start_(start),
      rank_(rank),
      world_size_(world_size),
      batch_size_(options.batch_size),
      remainder_(options.remainder) {
  const int64_t samples = order_->size() - start_;
  // Divided twice, as the product of batch_size and world size may overflow.
  steps_ = samples / batch_size_ / world_size_;
  const int64_t left = samples - steps_ * batch_size_ * world_size_;
  rest_ = left / world_size_;
  if (options.remainder == Remainder::kPad && left % world_size_ != 0) ++rest_;
}

int64_t DistributedSampler::size() const {
  return steps_ * batch_size_ + rest_;
}

int64_t DistributedSampler::GlobalPosition(int64_t position) const {
  const int64_t step = position / batch_size_;
  if (step < steps_) {
    return start_ + (step * world_size_ + rank_) * batch_size_ +
           position % batch_size_;
  }
  return start_ + steps_ * batch_size_ * world_size_ + rank_ * rest_ +
         (position - steps_ * batch_size_);
}

std::optional<int64_t> DistributedSampler::WholePosition(
    int64_t position) const {
  if (position >= size()) return order_->size();
  if (position % batch_size_ != 0) return std::nullopt;
  return start_ + position * world_size_;
}

std::unique_ptr<Sampler> DistributedSampler::From(int64_t start) {
  return absl::WrapUnique(new DistributedSampler(
      order_, start, rank_, world_size_,
      {.batch_size = batch_size_, .remainder = remainder_}));
}

void DistributedSampler::Fill(int64_t epoch, int64_t first,
                              absl::Span<int64_t> indices) {
  // In runs of consecutive positions of the order.
  while (!indices.empty()) {
    const int64_t end_of_run = first / batch_size_ < steps_
                                   ? (first / batch_size_ + 1) * batch_size_
                                   : size();
    const int64_t from = GlobalPosition(first) % order_->size();
    const int64_t run = std::min({static_cast<int64_t>(indices.size()),
                                  end_of_run - first, order_->size() - from});
    const auto count = static_cast<size_t>(run);
    order_->Fill(epoch, from, indices.first(count));
    indices.remove_prefix(count);
    first += run;
  }
}

}  // namespace tenon::loader
