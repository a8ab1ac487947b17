// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ScratchSample: a sample in memory of its own, outside of a batch.

#ifndef TENON_LOADER_DATASETS_SCRATCH_SAMPLE_H_
#define TENON_LOADER_DATASETS_SCRATCH_SAMPLE_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/loader/data/sample_spec.h"

namespace tenon::loader {

// Ownership: owns the memory. Threads: thread-compatible.
class ScratchSample {
 public:
  // Errors: those of the spec.
  static absl::StatusOr<std::unique_ptr<ScratchSample>> Create(
      const SampleSpec& spec);
  ScratchSample(const ScratchSample&) = delete;
  ScratchSample& operator=(const ScratchSample&) = delete;

  // The sample, empty; valid until the next call.
  Sample Reset();

 private:
  explicit ScratchSample(BatchLayout layout);

  const BatchLayout layout_;
  const std::unique_ptr<std::byte[]> memory_;
  SampleScratch scratch_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATASETS_SCRATCH_SAMPLE_H_
