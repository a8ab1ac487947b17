// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/fill_batch.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/catching.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/loader/sampling/sample_random.h"
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

absl::Status OfSample(int64_t position, int64_t index,
                      const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("sample ", position, " (item ", index,
                                   "): ", status.message()));
}

absl::StatusOr<FilledBatch> FillOneByOne(
    Dataset& dataset, const BatchLayout& layout, const BatchTask& task,
    std::byte* memory, absl::FunctionRef<bool()> should_stop) {
  FilledBatch filled;
  int64_t position = task.first_position;
  for (const int64_t index : task.indices) {
    if (should_stop()) return absl::CancelledError("the batch was cancelled");
    SampleRandom random(task.seed, task.epoch, position);
    if (task.scratch != nullptr) task.scratch->Clear(filled.samples);
    Sample sample(layout, memory, filled.samples, 1, task.scratch);
    absl::Status status = Catching(
        "Dataset::Get()", [&] { return dataset.Get(index, random, sample); });
    if (status.ok() && task.scratch != nullptr) {
      status = task.scratch->Check(filled.samples);
    }
    if (status.ok()) {
      ++filled.samples;
    } else if (task.on_error == OnSampleError::kSkip) {
      filled.skipped.push_back({position, index, std::move(status)});
    } else {
      return OfSample(position, index, status);
    }
    ++position;
  }
  return filled;
}

absl::Status CheckScratch(const BatchTask& task) {
  if (task.scratch == nullptr) return absl::OkStatus();
  for (int64_t i = 0; i < std::ssize(task.indices); ++i) {
    const absl::Status written = task.scratch->Check(i);
    if (!written.ok()) {
      return OfSample(task.first_position + i,
                      task.indices[static_cast<size_t>(i)], written);
    }
  }
  return absl::OkStatus();
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
  if (task.scratch != nullptr) task.scratch->Reset();
  SampleBatch samples(SampleSpan(layout, memory, 0, size, task.scratch),
                      task.seed, task.epoch, task.first_position);
  const absl::Status status = Catching("Dataset::GetBatch()", [&] {
    return dataset.GetBatch(task.indices, samples);
  });
  if (status.ok()) {
    const absl::Status written = CheckScratch(task);
    if (written.ok()) return FilledBatch{.samples = size, .skipped = {}};
    if (task.on_error != OnSampleError::kSkip) return written;
  }
  if (status.ok() || absl::IsUnimplemented(status) ||
      task.on_error == OnSampleError::kSkip) {
    return FillOneByOne(dataset, layout, task, memory, should_stop);
  }
  return absl::Status(
      status.code(),
      absl::StrCat("samples ", task.first_position, " to ",
                   task.first_position + size - 1, ": ", status.message()));
}

}  // namespace tenon::loader
