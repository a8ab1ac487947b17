// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/batch_sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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

// Batches that are no slice, from `start` on.
class RestOfBatches : public BatchSampler {
 public:
  RestOfBatches(BatchSampler* whole, int64_t start)
      : whole_(whole), start_(start) {}

  int64_t size() const override { return whole_->size() - start_; }
  int64_t max_batch_size() const override { return whole_->max_batch_size(); }
  void Fill(int64_t epoch, int64_t number,
            std::vector<int64_t>& indices) override {
    whole_->Fill(epoch, start_ + number, indices);
  }
  int64_t FirstPosition(int64_t number) const override {
    return whole_->FirstPosition(start_ + number);
  }
  BatchSampler& Whole() override { return *whole_; }
  std::optional<int64_t> WholePosition(int64_t number) const override {
    return start_ + number;
  }
  std::unique_ptr<BatchSampler> From(int64_t start) override {
    return whole_->From(start);
  }

 private:
  BatchSampler* whole_;
  int64_t start_;
};

}  // namespace

std::unique_ptr<BatchSampler> BatchSampler::From(int64_t start) {
  return std::make_unique<RestOfBatches>(this, start);
}

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

FixedBatchSampler::FixedBatchSampler(std::shared_ptr<Sampler> order,
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

BatchSampler& FixedBatchSampler::Whole() {
  Sampler& whole = order_->Whole();
  if (&whole == order_.get()) return *this;
  if (whole_ == nullptr) {
    // Owns what `whole` is a part of.
    whole_ = absl::WrapUnique(new FixedBatchSampler(
        std::shared_ptr<Sampler>(order_, &whole), batch_size_, drop_last_));
  }
  return *whole_;
}

std::optional<int64_t> FixedBatchSampler::WholePosition(int64_t number) const {
  const std::optional<int64_t> samples = order_->WholePosition(
      number >= QuotientUp(order_->size(), batch_size_) ? order_->size()
                                                        : number * batch_size_);
  if (!samples) return std::nullopt;
  const int64_t whole = order_->Whole().size();
  if (*samples < whole && *samples % batch_size_ != 0) return std::nullopt;
  return drop_last_ ? *samples / batch_size_
                    : QuotientUp(*samples, batch_size_);
}

std::unique_ptr<BatchSampler> FixedBatchSampler::From(int64_t start) {
  const int64_t whole = order_->Whole().size();
  return absl::WrapUnique(
      new FixedBatchSampler(order_->From(start >= QuotientUp(whole, batch_size_)
                                             ? whole
                                             : start * batch_size_),
                            batch_size_, drop_last_));
}

absl::StatusOr<std::unique_ptr<DistributedBatchSampler>>
DistributedBatchSampler::Create(std::unique_ptr<BatchSampler> batches,
                                const Rank& rank, Remainder remainder) {
  if (batches == nullptr) {
    return absl::InvalidArgumentError(
        "DistributedBatchSampler::Create(): there are no batches to divide");
  }
  TENON_RETURN_IF_ERROR(CheckRank("DistributedBatchSampler::Create()", rank));
  return absl::WrapUnique(new DistributedBatchSampler(
      std::move(batches), 0, rank.rank, rank.world_size, remainder));
}

DistributedBatchSampler::DistributedBatchSampler(
    std::shared_ptr<BatchSampler> batches, int64_t start, int64_t rank,
    int64_t world_size, Remainder remainder)
    : batches_(std::move(batches)),
      start_(start),
      rank_(rank),
      world_size_(world_size),
      remainder_(remainder),
      size_(remainder == Remainder::kPad
                ? QuotientUp(batches_->size() - start_, world_size_)
                : (batches_->size() - start_) / world_size_) {}

void DistributedBatchSampler::Fill(int64_t epoch, int64_t number,
                                   std::vector<int64_t>& indices) {
  batches_->Fill(epoch,
                 (start_ + number * world_size_ + rank_) % batches_->size(),
                 indices);
}

std::optional<int64_t> DistributedBatchSampler::WholePosition(
    int64_t number) const {
  return number >= size_ ? batches_->size() : start_ + number * world_size_;
}

std::unique_ptr<BatchSampler> DistributedBatchSampler::From(int64_t start) {
  return absl::WrapUnique(new DistributedBatchSampler(batches_, start, rank_,
                                                      world_size_, remainder_));
}

int64_t DistributedBatchSampler::FirstPosition(int64_t number) const {
  return batches_->FirstPosition(start_ + number * world_size_ + rank_);
}

}  // namespace tenon::loader
