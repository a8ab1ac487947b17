// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/fill_batch.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/worker/catching.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

absl::Status CheckIndices(const Dataset& dataset,
                          absl::Span<const int64_t> indices) {
  const int64_t size = dataset.size();
  for (const int64_t index : indices) {
    if (index < 0 || index >= size) {
      return absl::OutOfRangeError(absl::StrCat(
          "the sampler asks for item ", index, " of a dataset of ", size));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<FilledBatch> FillOneByOne(
    Dataset& dataset, const BatchLayout& layout, const BatchTask& task,
    std::byte* memory, absl::FunctionRef<bool()> should_stop) {
  FilledBatch filled;
  int64_t position = task.first_position;
  for (const int64_t index : task.indices) {
    if (should_stop()) return absl::CancelledError("the batch was cancelled");
    SampleRandom random(task.seed, task.epoch, position);
    Sample sample(layout, memory, filled.samples, 1);
    absl::Status status = Catching(
        "Dataset::Get()", [&] { return dataset.Get(index, random, sample); });
    if (status.ok()) {
      ++filled.samples;
    } else if (task.on_error == OnSampleError::kSkip) {
      filled.skipped.push_back({position, index, std::move(status)});
    } else {
      return absl::Status(status.code(),
                          absl::StrCat("sample ", position, " (item ", index,
                                       "): ", status.message()));
    }
    ++position;
  }
  return filled;
}

}  // namespace

absl::StatusOr<FilledBatch> FillBatch(Dataset& dataset,
                                      const BatchLayout& layout,
                                      const BatchTask& task, std::byte* memory,
                                      absl::FunctionRef<bool()> should_stop) {
  TENON_RETURN_IF_ERROR(Catching(
      "Dataset::size()", [&] { return CheckIndices(dataset, task.indices); }));
  if (should_stop()) return absl::CancelledError("the batch was cancelled");
  const auto size = static_cast<int64_t>(task.indices.size());
  SampleBatch samples(SampleSpan(layout, memory, 0, size), task.seed,
                      task.epoch, task.first_position);
  const absl::Status status = Catching("Dataset::GetBatch()", [&] {
    return dataset.GetBatch(task.indices, samples);
  });
  if (status.ok()) return FilledBatch{.samples = size, .skipped = {}};
  if (absl::IsUnimplemented(status) || task.on_error == OnSampleError::kSkip) {
    return FillOneByOne(dataset, layout, task, memory, should_stop);
  }
  return absl::Status(
      status.code(),
      absl::StrCat("samples ", task.first_position, " to ",
                   task.first_position + size - 1, ": ", status.message()));
}

}  // namespace tenon::loader
