// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/bucket_sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/sampling/sampler_stream.h"

namespace tenon::loader {
namespace {

absl::Status Invalid(absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat("BucketSampler::Create(): ", problem));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BucketSampler>> BucketSampler::Create(
    BucketSamplerOptions options, std::unique_ptr<Sampler> order) {
  if (order == nullptr) return Invalid("there is no order to sort");
  if (options.batch_size < 1 || options.window < 1 ||
      options.window >
          std::numeric_limits<int64_t>::max() / options.batch_size) {
    return Invalid(absl::StrCat("batch_size ", options.batch_size,
                                " and window ", options.window,
                                "; want at least 1, and a product of at most "
                                "2^63-1"));
  }
  for (size_t i = 0; i < options.lengths.size(); ++i) {
    if (options.lengths[i] < 0) {
      return Invalid(absl::StrCat("the length of item ", i, " is ",
                                  options.lengths[i],
                                  "; it must be at least 0"));
    }
  }
  return absl::WrapUnique(
      new BucketSampler(std::move(options), std::move(order)));
}

BucketSampler::BucketSampler(BucketSamplerOptions options,
                             std::unique_ptr<Sampler> order)
    : options_(std::move(options)),
      order_(std::move(order)),
      window_size_(options_.batch_size * options_.window) {}

void BucketSampler::Fill(int64_t epoch, int64_t first,
                         absl::Span<int64_t> indices) {
  for (int64_t& index : indices) {
    const int64_t window = first / window_size_;
    if (epoch != epoch_ || window != window_) Sort(epoch, window);
    index = sorted_[static_cast<size_t>(first++ - window * window_size_)];
  }
}

int64_t BucketSampler::LengthOf(int64_t index) const {
  const auto i = static_cast<uint64_t>(index);
  return i < options_.lengths.size() ? options_.lengths[i] : 0;
}

void BucketSampler::Sort(int64_t epoch, int64_t window) {
  const int64_t first = window * window_size_;
  const int64_t samples = std::min(window_size_, order_->size() - first);
  std::vector<int64_t> drawn(static_cast<size_t>(samples));
  order_->Fill(epoch, first, absl::MakeSpan(drawn));
  std::stable_sort(drawn.begin(), drawn.end(), [this](int64_t x, int64_t y) {
    return LengthOf(x) < LengthOf(y);
  });

  SampleRandom random =
      SamplerRandom(SamplerStream::kBuckets, options_.seed, epoch, window);
  const int64_t full = samples / options_.batch_size;
  const int64_t rest = samples % options_.batch_size;
  // The samples of a batch that is not full have any length, not the greatest:
  // they begin after `before` full batches.
  const auto before =
      static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(full) + 1));
  std::vector<int64_t> starts(static_cast<size_t>(full));
  for (int64_t i = 0; i < full; ++i) {
    starts[static_cast<size_t>(i)] =
        i * options_.batch_size + (i < before ? 0 : rest);
  }
  for (size_t left = starts.size(); left > 1; --left) {  // Fisher-Yates.
    std::swap(starts[left - 1], starts[random.UniformInt(left)]);
  }
  sorted_.clear();
  for (const int64_t start : starts) {
    const auto begin = drawn.begin() + start;
    sorted_.insert(sorted_.end(), begin, begin + options_.batch_size);
  }
  const auto begin = drawn.begin() + before * options_.batch_size;
  sorted_.insert(sorted_.end(), begin, begin + rest);
  epoch_ = epoch;
  window_ = window;
}

}  // namespace tenon::loader
