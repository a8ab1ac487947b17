// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FillBatch: runs a dataset over the samples of one batch: the only function
// that makes samples, with workers and without, in one thread or several.

#ifndef TENON_LOADER_WORKER_FILL_BATCH_H_
#define TENON_LOADER_WORKER_FILL_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/on_sample_error.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/loader/worker/sample_threads.h"
#include "tenon/shm/base/atomics.h"

namespace tenon::loader {

// The samples of a batch.
struct BatchTask {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t first_position = 0;  // Of the first sample, in the job's epoch.
  absl::Span<const int64_t> indices;  // Into the dataset.
  OnSampleError on_error = OnSampleError::kFail;
  // For what differs in shape, if anything does.
  SampleScratch* scratch = nullptr;
  // Not by Dataset::GetBatch(), and by the caller alone.
  bool one_by_one = false;
  // Numbers in the batch, ascending, of samples that are not made: they have
  // failed. Their index is that of the last item tried in their place, if any
  // was. The others are made one by one.
  absl::Span<const int64_t> left_out = {};
  // Where the sample that is being made is noted (WorkerNote::sample), if not
  // null.
  SharedWord<uint64_t>* now = nullptr;
  // That make the samples, if not the caller alone; of a dataset that is
  // thread_safe(). What is noted is then that all are being made.
  SampleThreads* threads = nullptr;
};

struct FilledBatch {
  int64_t samples = 0;
  std::vector<SkippedSample> skipped;
};

// Writes the samples of `task` to `memory` (layout.total_bytes() of it), the
// good ones one after the other, and task.scratch from its beginning. Calls
// `should_stop` before each sample, in the thread that makes it. The result
// does not depend on task.threads.
// Errors: kOutOfRange for an index that is not in the dataset; the dataset's,
// of the first sample that fails, with position and index, if task.on_error is
// kFail, or kReplace and no item could take the place; kInternal for an
// exception in it; kCancelled if should_stop() returned true.
absl::StatusOr<FilledBatch> FillBatch(Dataset& dataset,
                                      const BatchLayout& layout,
                                      const BatchTask& task, std::byte* memory,
                                      absl::FunctionRef<bool()> should_stop);

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_FILL_BATCH_H_
