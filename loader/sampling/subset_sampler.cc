// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/subset_sampler.h"

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
#include "tenon/loader/sampling/sampler.h"

namespace tenon::loader {

absl::StatusOr<std::unique_ptr<SubsetSampler>> SubsetSampler::Create(
    std::vector<int64_t> indices, std::unique_ptr<Sampler> order) {
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("SubsetSampler::Create(): index ", i, " of the subset ",
                       "is ", indices[i], "; it must be at least 0"));
    }
  }
  if (order == nullptr) {
    order = std::make_unique<SequentialSampler>(
        static_cast<int64_t>(indices.size()));
  }
  return absl::WrapUnique(new SubsetSampler(
      std::make_shared<const std::vector<int64_t>>(std::move(indices)),
      std::move(order)));
}

SubsetSampler::SubsetSampler(Indices indices, std::shared_ptr<Sampler> order)
    : indices_(std::move(indices)), order_(std::move(order)) {}

Sampler& SubsetSampler::Whole() {
  Sampler& whole = order_->Whole();
  if (&whole == order_.get()) return *this;
  if (whole_ == nullptr) {
    // Owns what `whole` is a part of.
    whole_ = absl::WrapUnique(
        new SubsetSampler(indices_, std::shared_ptr<Sampler>(order_, &whole)));
  }
  return *whole_;
}

std::unique_ptr<Sampler> SubsetSampler::From(int64_t start) {
  return absl::WrapUnique(new SubsetSampler(indices_, order_->From(start)));
}

void SubsetSampler::Fill(int64_t epoch, int64_t first,
                         absl::Span<int64_t> indices) {
  order_->Fill(epoch, first, indices);
  for (int64_t& index : indices) {
    const auto place = static_cast<uint64_t>(index);
    index = place < indices_->size() ? (*indices_)[place] : -1;
  }
}

}  // namespace tenon::loader
