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
#include <memory>
#include <optional>

#include "absl/types/span.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// The order of an epoch, as a function of the epoch alone: the sampler has no
// position, and no call changes the result of another. An epoch may be asked
// for before the one before it has ended (LoaderOptions::overlap_epochs). To
// resume, a loader asks for the positions from the one that was reached, which
// costs no more than those before it: an order that can only be computed from
// its beginning is computed inside Fill(), and no sample is loaded for that.
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

  // The rest is for Loader::State() and Load(). A sampler that is a slice of
  // another one overrides all three; else a state is refused (kUnimplemented).

  // The order of the whole job that this is a slice of.
  virtual Sampler& Whole() { return *this; }

  // How many samples of Whole() all ranks have been given together when each
  // has been given the first `position` samples of its slice, if these are the
  // first ones of Whole(); else nothing, as between the ends of batches.
  virtual std::optional<int64_t> WholePosition(int64_t position) const {
    return position;
  }

  // The slice that this rank has of Whole() without its first `start` samples
  // (0 to its size()). GlobalPosition() and the indices are those of the
  // complete epoch. Never null; must not outlive this sampler.
  virtual std::unique_ptr<Sampler> From(int64_t start);
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
