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

// The order of an epoch, as a function of the epoch alone: a sampler has no
// position, and no call changes the result of another one. A loader may ask for
// the next epoch before this one has ended (LoaderOptions::overlap_epochs). A
// loader that resumes asks for the positions from the one that was reached. An
// order that can only be computed from its beginning is computed in Fill(); no
// sample is loaded for that.
// Threads: thread-compatible.
// Processes: lives in the consumer; workers receive indices.
// Failure: a function may throw. The loader returns kInternal with the text of
//   the exception, from the call or in place of the batch.
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

  // The position in the epoch of the whole job of the sample at `position`. It
  // keys the random numbers of the sample (sample_random.h), which are thus the
  // same for any number of ranks. Overridden by a sampler that is a slice of
  // another one.
  virtual int64_t GlobalPosition(int64_t position) const { return position; }

  // The rest is for Loader::State() and Load(). A sampler that is a slice of
  // another one overrides all three; else a state is refused (kUnimplemented).

  // The order of the whole job of which this is a slice; owned by this sampler.
  virtual Sampler& Whole() { return *this; }

  // The number of samples of Whole() that all ranks have together when each has
  // the first `position` samples of its slice. Nothing if these are not the
  // first samples of Whole(), as in the middle of a batch.
  virtual std::optional<int64_t> WholePosition(int64_t position) const {
    return position;
  }

  // This rank's slice of Whole() without the first `start` samples of Whole(),
  // in [0, Whole().size()]. GlobalPosition() and the indices are those of the
  // complete epoch. Not null; must not outlive this sampler.
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
