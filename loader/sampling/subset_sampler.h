// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SubsetSampler: some items of a dataset, in the order of another sampler.
//
//   TENON_ASSIGN_OR_RETURN(auto order,
//                          RandomSampler::Create({.dataset_size = 3}));
//   TENON_ASSIGN_OR_RETURN(
//       auto sampler, SubsetSampler::Create({4, 8, 15}, std::move(order)));

#ifndef TENON_LOADER_SAMPLING_SUBSET_SAMPLER_H_
#define TENON_LOADER_SAMPLING_SUBSET_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/sampling/sampler.h"

namespace tenon::loader {

// `order` orders the list of indices as if it were a dataset.
// Ownership: owns the list and `order`.
class SubsetSampler : public Sampler {
 public:
  // A null `order` is the order of the list. An index may occur twice.
  // Errors: kInvalidArgument for a negative index.
  static absl::StatusOr<std::unique_ptr<SubsetSampler>> Create(
      std::vector<int64_t> indices, std::unique_ptr<Sampler> order = nullptr);

  int64_t size() const override { return order_->size(); }
  // -1, which is an error of the loader's batch, for a position of `order` that
  // is not in the list.
  void Fill(int64_t epoch, int64_t first, absl::Span<int64_t> indices) override;
  int64_t GlobalPosition(int64_t position) const override {
    return order_->GlobalPosition(position);
  }
  Sampler& Whole() override;
  std::optional<int64_t> WholePosition(int64_t position) const override {
    return order_->WholePosition(position);
  }
  std::unique_ptr<Sampler> From(int64_t start) override;

 private:
  using Indices = std::shared_ptr<const std::vector<int64_t>>;

  SubsetSampler(Indices indices, std::shared_ptr<Sampler> order);

  Indices indices_;
  std::shared_ptr<Sampler> order_;
  std::unique_ptr<SubsetSampler> whole_;  // Of a slice; null before Whole().
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_SUBSET_SAMPLER_H_
