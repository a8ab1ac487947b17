// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Sampler: which items of a dataset make up an epoch, and in which order.
//
// Samplers are composed. The global order comes first: it is the epoch of one
// process. Slices of it, for the ranks of a job, come last:
//
//   RandomSampler -> BucketSampler -> DistributedSampler

#ifndef TENON_LOADER_SAMPLING_SAMPLER_H_
#define TENON_LOADER_SAMPLING_SAMPLER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// The order of an epoch, as a function of the epoch alone: the sampler has no
// position, and no call changes the result of another. An epoch may be asked
// for before the one before it has ended (LoaderOptions::overlap_epochs). To
// resume, ask for the positions from the one that was reached.
// Threads: thread-compatible. Processes: lives in the consumer; workers are
// sent indices and have no sampler.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // How many samples an epoch has. The same for each epoch.
  virtual int64_t size() const = 0;

  // Writes the dataset indices at positions [first, first + indices.size()) of
  // `epoch`. The range is within [0, size()). May compute for long at the
  // first call of an epoch.
  virtual void Fill(int64_t epoch, int64_t first,
                    absl::Span<int64_t> indices) = 0;

  // The position in the epoch of the whole job that `position` stands for. The
  // random numbers of a sample are keyed by it (sample_random.h), so that they
  // are the same for any number of ranks. Other than `position` only where a
  // sampler is a slice of another one.
  virtual int64_t GlobalPosition(int64_t position) const { return position; }
};

// 0, 1, 2, ... in each epoch.
class SequentialSampler : public Sampler {
 public:
  // `size` >= 0.
  explicit SequentialSampler(int64_t size) : size_(size) {}

  int64_t size() const override { return size_; }
  void Fill(int64_t epoch, int64_t first, absl::Span<int64_t> indices) override;

 private:
  int64_t size_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_SAMPLER_H_
