// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/fill_batch.h"

#include <cstddef>
#include <cstdint>
#include <exception>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

// Dataset::Get(), its exceptions turned into a status.
absl::Status GetSample(Dataset& dataset, int64_t index, SampleRandom random,
                       Sample sample) {
  try {
    return dataset.Get(index, random, sample);
  } catch (const std::exception& error) {
    return absl::InternalError(
        absl::StrCat("Dataset::Get threw: ", error.what()));
  } catch (...) {
    return absl::InternalError(
        "Dataset::Get threw something that is no std::exception");
  }
}

}  // namespace

absl::StatusOr<int64_t> FillBatch(
    Dataset& dataset, const BatchLayout& layout, const BatchTask& task,
    std::byte* memory, absl::FunctionRef<absl::Status(SkippedSample)> skipped,
    absl::FunctionRef<bool()> should_stop) {
  int64_t filled = 0;
  int64_t position = task.first_position;
  for (const int64_t index : task.indices) {
    if (should_stop()) return absl::CancelledError("the batch was cancelled");
    const absl::Status status =
        GetSample(dataset, index, SampleRandom(task.seed, task.epoch, position),
                  Sample(layout, memory, filled));
    if (status.ok()) {
      ++filled;
    } else if (task.on_error == OnSampleError::kSkip) {
      TENON_RETURN_IF_ERROR(skipped({position, index, status}));
    } else {
      return absl::Status(status.code(),
                          absl::StrCat("sample ", position, " (item ", index,
                                       "): ", status.message()));
    }
    ++position;
  }
  return filled;
}

}  // namespace tenon::loader
