// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/batch_sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

// How many batches of an order are checked.
constexpr int64_t kChecked = 4096;

int64_t QuotientUp(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor == 0 ? 0 : 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FixedBatchSampler>> FixedBatchSampler::Create(
    std::unique_ptr<Sampler> order, int64_t batch_size, bool drop_last) {
  if (order == nullptr) {
    return absl::InvalidArgumentError(
        "FixedBatchSampler::Create(): there is no order to cut");
  }
  if (batch_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("FixedBatchSampler::Create(): batch_size is ", batch_size,
                     "; it must be at least 1"));
  }
  const int64_t size = order->size();
  for (int64_t number = 0; number < kChecked && number * batch_size < size;
       ++number) {
    const int64_t first = number * batch_size;
    const int64_t more = std::min(batch_size, size - first) - 1;
    if (order->GlobalPosition(first + more) ==
        order->GlobalPosition(first) + more) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "FixedBatchSampler::Create(): batch ", number,
        " has samples of several batches of the job; give the order the same "
        "batch_size (",
        batch_size, ")"));
  }
  return absl::WrapUnique(
      new FixedBatchSampler(std::move(order), batch_size, drop_last));
}

FixedBatchSampler::FixedBatchSampler(std::unique_ptr<Sampler> order,
                                     int64_t batch_size, bool drop_last)
    : order_(std::move(order)),
      batch_size_(batch_size),
      drop_last_(drop_last) {}

int64_t FixedBatchSampler::size() const {
  return drop_last_ ? order_->size() / batch_size_
                    : QuotientUp(order_->size(), batch_size_);
}

void FixedBatchSampler::Fill(int64_t epoch, int64_t number,
                             std::vector<int64_t>& indices) {
  const int64_t first = number * batch_size_;
  indices.resize(
      static_cast<size_t>(std::min(batch_size_, order_->size() - first)));
  order_->Fill(epoch, first, absl::MakeSpan(indices));
}

int64_t FixedBatchSampler::FirstPosition(int64_t number) const {
  return order_->GlobalPosition(number * batch_size_);
}

absl::StatusOr<std::unique_ptr<DistributedBatchSampler>>
DistributedBatchSampler::Create(std::unique_ptr<BatchSampler> batches,
                                const Rank& rank, Remainder remainder) {
  if (batches == nullptr) {
    return absl::InvalidArgumentError(
        "DistributedBatchSampler::Create(): there are no batches to divide");
  }
  TENON_RETURN_IF_ERROR(CheckRank("DistributedBatchSampler::Create()", rank));
  return absl::WrapUnique(
      new DistributedBatchSampler(std::move(batches), rank, remainder));
}

DistributedBatchSampler::DistributedBatchSampler(
    std::unique_ptr<BatchSampler> batches, const Rank& rank,
    Remainder remainder)
    : batches_(std::move(batches)),
      rank_(rank.rank),
      world_size_(rank.world_size),
      size_(remainder == Remainder::kPad
                ? QuotientUp(batches_->size(), world_size_)
                : batches_->size() / world_size_) {}

void DistributedBatchSampler::Fill(int64_t epoch, int64_t number,
                                   std::vector<int64_t>& indices) {
  batches_->Fill(epoch, (number * world_size_ + rank_) % batches_->size(),
                 indices);
}

int64_t DistributedBatchSampler::FirstPosition(int64_t number) const {
  return batches_->FirstPosition(number * world_size_ + rank_);
}

}  // namespace tenon::loader
