// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FillBatch: runs a dataset over the samples of one batch. The one place where
// samples are made, with workers and without.

#ifndef TENON_LOADER_WORKER_FILL_BATCH_H_
#define TENON_LOADER_WORKER_FILL_BATCH_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/on_sample_error.h"

namespace tenon::loader {

// Which samples.
struct BatchTask {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t first_position = 0;         // Of the first sample, in the epoch.
  absl::Span<const int64_t> indices;  // Into the dataset.
  OnSampleError on_error = OnSampleError::kFail;
};

// Writes the samples of `task` into `memory` (layout.total_bytes() of it), the
// good ones close together, and returns how many there are. `skipped` is told
// of each that was left out; if it fails, so does this. `should_stop` is asked
// before each sample.
// Errors: the dataset's, with position and index, if task.on_error is kFail;
// kInternal for an exception in it; kCancelled if should_stop() said so.
absl::StatusOr<int64_t> FillBatch(
    Dataset& dataset, const BatchLayout& layout, const BatchTask& task,
    std::byte* memory, absl::FunctionRef<absl::Status(SkippedSample)> skipped,
    absl::FunctionRef<bool()> should_stop);

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_FILL_BATCH_H_
