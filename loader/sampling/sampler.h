// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Sampler: which items of a dataset make up an epoch, and in which order.

#ifndef TENON_LOADER_SAMPLING_SAMPLER_H_
#define TENON_LOADER_SAMPLING_SAMPLER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// The global order of an epoch, as a function of the epoch alone. A loader asks
// for it in pieces.
// Threads: thread-compatible. Processes: lives in the consumer; workers are
// told indices and have no sampler.
class Sampler {
 public:
  virtual ~Sampler() = default;

  // How many samples an epoch has.
  virtual int64_t size() const = 0;

  // Writes the dataset indices at positions [first, first + indices.size()) of
  // `epoch`. The range is within [0, size()). May compute for long at the
  // first call of an epoch.
  virtual void Fill(int64_t epoch, int64_t first,
                    absl::Span<int64_t> indices) = 0;
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
