// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/sampler.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>

#include "absl/types/span.h"

namespace tenon::loader {
namespace {

// An order that is no slice, from `start` on.
class Rest : public Sampler {
 public:
  Rest(Sampler* whole, int64_t start) : whole_(whole), start_(start) {}

  int64_t size() const override { return whole_->size() - start_; }
  void Fill(int64_t epoch, int64_t first,
            absl::Span<int64_t> indices) override {
    whole_->Fill(epoch, start_ + first, indices);
  }
  int64_t GlobalPosition(int64_t position) const override {
    return whole_->GlobalPosition(start_ + position);
  }
  Sampler& Whole() override { return *whole_; }
  std::optional<int64_t> WholePosition(int64_t position) const override {
    return start_ + position;
  }
  std::unique_ptr<Sampler> From(int64_t start) override {
    return whole_->From(start);
  }

 private:
  Sampler* whole_;
  int64_t start_;
};

}  // namespace

std::unique_ptr<Sampler> Sampler::From(int64_t start) {
  return std::make_unique<Rest>(this, start);
}

void SequentialSampler::Fill(int64_t /*epoch*/, int64_t first,
                             absl::Span<int64_t> indices) {
  std::iota(indices.begin(), indices.end(), first);
}

}  // namespace tenon::loader
