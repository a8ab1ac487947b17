// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Dataset: samples by index.
//
//   class Squares : public loader::Dataset {
//    public:
//     explicit Squares(int64_t size) : size_(size) {}
//
//     int64_t size() const override { return size_; }
//     loader::SampleSpec spec() const override {
//       return loader::SampleSpec().Add<int64_t>("square");
//     }
//     absl::Status Get(int64_t index, loader::SampleRandom&,
//                      loader::Sample& sample) override {
//       return sample.Set("square", index * index);
//     }
//
//    private:
//     int64_t size_;
//   };
//   TENON_LOADER_DATASET(Squares(int64_t));     // dataset_registry.h
//
// A sample is written into its place in the batch, in shared memory, so fields
// of one shape need no collation. Fields whose shape differs from sample to
// sample are collated (sample_spec.h).

#ifndef TENON_LOADER_DATA_DATASET_H_
#define TENON_LOADER_DATA_DATASET_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {

// The samples of one GetBatch(), and their random numbers.
class SampleBatch : public SampleSpan {
 public:
  // For loaders. `first_position` is that of the first sample in the epoch; the
  // others follow it.
  SampleBatch(const SampleSpan& samples, uint64_t seed, int64_t epoch,
              int64_t first_position)
      : SampleSpan(samples),
        seed_(seed),
        epoch_(epoch),
        first_position_(first_position) {}

  // The random numbers of sample `i`, the same as Get() would be passed for it.
  SampleRandom random(int64_t i) const {
    return SampleRandom(seed_, epoch_, first_position_ + i);
  }

 private:
  uint64_t seed_;
  int64_t epoch_;
  int64_t first_position_;
};

// Threads: an instance is used by one thread at a time, unless it is
//   thread_safe().
// Processes: each worker makes an instance of its own; without workers the
//   consumer's is used.
// Failure: functions return a status or throw; an exception becomes kInternal.
//   LoaderOptions::on_sample_error says what a failed Get() does to its batch.
//   An instance must be usable after it.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // The number of samples. Must not change.
  virtual int64_t size() const = 0;

  // The fields of a sample. Must not change, and must be the same in each
  // process.
  virtual SampleSpec spec() const = 0;

  // Writes item `index` (in [0, size())) to `sample`: every byte of every
  // field. All randomness must come from `random`: then the epoch does not
  // depend on the number of workers.
  virtual absl::Status Get(int64_t index, SampleRandom& random,
                           Sample& sample) = 0;

  // Optional: writes item indices[i] to samples.sample(i), for all i; for
  // datasets to which many items at once cost less. Must write the same bytes
  // as Get(). If it returns kUnimplemented, as it does unless overridden, Get()
  // is called for each sample. So it is after any other error with
  // OnSampleError::kSkip or kReplace; with kFail that error is the batch's.
  virtual absl::Status GetBatch(absl::Span<const int64_t> indices,
                                SampleBatch& samples);

  // Makes the tensors of SampleSpec::AddOutput() from those of AddInput() and
  // of the other fields whose shape differs. Called for each batch that has a
  // sample, if the spec has fields of AddInput() or AddOutput(). An error is
  // the batch's.
  virtual absl::Status Collate(Collation& batch);

  // Whether several threads may call Get() and GetBatch() at the same time, for
  // different samples. LoaderOptions::threads_per_worker needs this; each
  // thread then calls GetBatch() for a part of the batch. No other function is
  // called while another thread is in the dataset. Must not change.
  virtual bool thread_safe() const { return false; }
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_DATASET_H_
