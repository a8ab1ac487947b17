// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TimeHistogram: a histogram of times, as a value. TimeWords: the same in
// memory that processes share, written by one and read by all.
//
//   waits.Add(ns);                               // The writer.
//   const TimeHistogram so_far = waits.Read();   // Any reader.
//   std::cout << so_far.count() << " waits, half of them shorter than "
//             << so_far.QuantileNs(0.5) << " ns\n";

#ifndef TENON_SHM_BASE_TIME_HISTOGRAM_H_
#define TENON_SHM_BASE_TIME_HISTOGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tenon/shm/base/atomics.h"

namespace tenon {

// Ownership: a value. Threads: thread-compatible.
struct TimeHistogram {
  // Times in bucket 0 are 0 ns; those in bucket b are 2^(b-1) ns or longer and,
  // except in the last one, shorter than 2^b ns.
  static constexpr size_t kBuckets = 41;
  static size_t BucketOf(uint64_t ns);
  // The bound of bucket b: 2^b ns.
  static uint64_t BoundOf(size_t bucket) { return uint64_t{1} << bucket; }

  // Of the words of a TimeWords. Counts and the total are limited so that sums
  // over buckets, or over some histograms, do not overflow.
  static TimeHistogram FromWords(absl::Span<const uint64_t> words);

  std::array<uint64_t, kBuckets> buckets = {};
  uint64_t total_ns = 0;
  uint64_t longest_ns = 0;

  uint64_t count() const;
  double MeanNs() const;  // 0 without a time.
  // The bound of the bucket that holds quantile q (0 to 1), at most the
  // longest time; 0 without a time.
  uint64_t QuantileNs(double q) const;
  // What has been added since `before`, an earlier value of the same histogram.
  // The longest time stays that of this value.
  TimeHistogram Since(const TimeHistogram& before) const;
};

// Zeroed memory is an empty histogram.
// Ownership: none; it lives in a mapping. Processes, threads: one writes at a
//   time, any number read. Trust: a reader may see any words; Read() limits
//   them.
// Memory order: relaxed. A reading may have the bucket of a time that its total
//   does not have yet.
struct TimeWords {
  static constexpr size_t kWords = 2 + TimeHistogram::kBuckets;

  // A time, or `times` of about this length.
  void Add(uint64_t ns, uint64_t times = 1);
  TimeHistogram Read() const;

  SharedWord<uint64_t> total;
  SharedWord<uint64_t> longest;
  SharedWord<uint64_t> buckets[TimeHistogram::kBuckets];
};
static_assert(sizeof(TimeWords) == TimeWords::kWords * sizeof(uint64_t));

}  // namespace tenon

#endif  // TENON_SHM_BASE_TIME_HISTOGRAM_H_
