// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/time_histogram.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "absl/types/span.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {
namespace {

// 36 years: the sum of some histograms does not overflow.
constexpr uint64_t kMaxTotalNs = uint64_t{1} << 60;
// Nor does that over all buckets.
constexpr uint64_t kMaxTimes = uint64_t{1} << 58;

uint64_t Load(const SharedWord<uint64_t>& word) {
  return StdAtomics::Load(word, std::memory_order_relaxed);
}

// This thread alone writes the word.
void Add(SharedWord<uint64_t>& word, uint64_t value) {
  StdAtomics::Store(word, Load(word) + value, std::memory_order_relaxed);
}

// Another process writes them: none may seem to run backwards.
uint64_t Added(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

}  // namespace

size_t TimeHistogram::BucketOf(uint64_t ns) {
  return std::min(static_cast<size_t>(std::bit_width(ns)), kBuckets - 1);
}

TimeHistogram TimeHistogram::FromWords(absl::Span<const uint64_t> words) {
  TimeHistogram times;
  if (words.size() < TimeWords::kWords) return times;
  times.total_ns = std::min(words[0], kMaxTotalNs);
  times.longest_ns = words[1];
  for (size_t b = 0; b < kBuckets; ++b) {
    times.buckets[b] = std::min(words[2 + b], kMaxTimes);
  }
  return times;
}

uint64_t TimeHistogram::count() const {
  return std::accumulate(buckets.begin(), buckets.end(), uint64_t{0});
}

double TimeHistogram::MeanNs() const {
  const uint64_t times = count();
  return times == 0
             ? 0
             : static_cast<double>(total_ns) / static_cast<double>(times);
}

uint64_t TimeHistogram::QuantileNs(double q) const {
  const uint64_t times = count();
  if (times == 0) return 0;
  const auto rank = static_cast<uint64_t>(
      std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(times)));
  uint64_t seen = 0;
  for (size_t b = 0; b < kBuckets; ++b) {
    seen += buckets[b];
    if (buckets[b] > 0 && seen >= rank) {
      return b + 1 == kBuckets ? longest_ns : std::min(BoundOf(b), longest_ns);
    }
  }
  return longest_ns;
}

TimeHistogram TimeHistogram::Since(const TimeHistogram& before) const {
  TimeHistogram added = *this;
  for (size_t b = 0; b < kBuckets; ++b) {
    added.buckets[b] = Added(buckets[b], before.buckets[b]);
  }
  added.total_ns = Added(total_ns, before.total_ns);
  return added;
}

void TimeWords::Add(uint64_t ns, uint64_t times) {
  tenon::Add(buckets[TimeHistogram::BucketOf(ns)], times);
  tenon::Add(total, ns * times);
  if (ns > Load(longest)) {
    StdAtomics::Store(longest, ns, std::memory_order_relaxed);
  }
}

TimeHistogram TimeWords::Read() const {
  std::array<uint64_t, kWords> words;
  words[0] = Load(total);
  words[1] = Load(longest);
  for (size_t b = 0; b < TimeHistogram::kBuckets; ++b) {
    words[2 + b] = Load(buckets[b]);
  }
  return TimeHistogram::FromWords(words);
}

}  // namespace tenon
