// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/fill_batch.h"

#include <algorithm>
#include <atomic>
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
#include "tenon/loader/worker/messages.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

void NoteSample(SharedWord<uint64_t>* now, uint64_t sample) {
  if (now != nullptr) {
    StdAtomics::Store(*now, sample, std::memory_order_relaxed);
  }
}

// How many items are tried in the place of one that failed.
constexpr int64_t kReplacements = 8;

// The size of the dataset.
absl::StatusOr<int64_t> CheckIndices(const Dataset& dataset,
                                     absl::Span<const int64_t> indices) {
  const int64_t size = dataset.size();
  for (const int64_t index : indices) {
    if (index < 0 || index >= size) {
      return absl::OutOfRangeError(absl::StrCat(
          "the sampler asks for item ", index, " of a dataset of ", size));
    }
  }
  return size;
}

absl::Status OfSample(int64_t position, int64_t index,
                      const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("sample ", position, " (item ", index,
                                   "): ", status.message()));
}

// Makes samples one by one.
class Filler {
 public:
  Filler(Dataset& dataset, int64_t size, const BatchLayout& layout,
         const BatchTask& task, std::byte* memory)
      : dataset_(dataset),
        size_(size),
        layout_(layout),
        task_(task),
        memory_(memory) {}

  absl::StatusOr<FilledBatch> Fill(absl::FunctionRef<bool()> should_stop) {
    int64_t position = task_.first_position;
    const int64_t* left_out = task_.left_out.begin();
    for (const int64_t index : task_.indices) {
      if (should_stop()) return absl::CancelledError("the batch was cancelled");
      absl::Status status;
      if (left_out != task_.left_out.end() &&
          *left_out == position - task_.first_position) {
        ++left_out;
        status = absl::AbortedError("it has ended a worker");
        if (task_.on_error == OnSampleError::kFail) {
          filled_.skipped.push_back({position++, index, std::move(status)});
          continue;
        }
      } else {
        status = FillOne(position, index);
      }
      if (!status.ok()) {
        TENON_RETURN_IF_ERROR(
            OnError({position, index, std::move(status)}, should_stop));
      }
      ++position;
    }
    return std::move(filled_);
  }

 private:
  // Makes item `index` at `position`, behind the samples that are there.
  absl::Status FillOne(int64_t position, int64_t index) {
    NoteSample(task_.now,
               static_cast<uint64_t>(position - task_.first_position) + 1);
    SampleRandom random(task_.seed, task_.epoch, position);
    if (task_.scratch != nullptr) task_.scratch->Clear(filled_.samples);
    TENON_CRASH_POINT("loader.worker.sample_noted");
    Sample sample(layout_, memory_, filled_.samples, 1, task_.scratch);
    absl::Status status = Catching(
        "Dataset::Get()", [&] { return dataset_.Get(index, random, sample); });
    if (status.ok() && task_.scratch != nullptr) {
      status = task_.scratch->Check(filled_.samples);
    }
    if (status.ok()) ++filled_.samples;
    return status;
  }

  absl::Status OnError(SkippedSample failed,
                       absl::FunctionRef<bool()> should_stop) {
    switch (task_.on_error) {
      case OnSampleError::kFail:
        return OfSample(failed.position, failed.index, failed.status);
      case OnSampleError::kReplace:
        TENON_RETURN_IF_ERROR(Replace(failed, should_stop));
        break;
      case OnSampleError::kSkip:
        break;
    }
    filled_.skipped.push_back(std::move(failed));
    return absl::OkStatus();
  }

  absl::Status Replace(SkippedSample& failed,
                       absl::FunctionRef<bool()> should_stop) {
    const int64_t others = std::min(kReplacements, size_ - 1);
    for (int64_t n = 1; n <= others; ++n) {
      if (should_stop()) return absl::CancelledError("the batch was cancelled");
      // As index + n, which may overflow.
      const int64_t item = failed.index < size_ - n
                               ? failed.index + n
                               : failed.index - (size_ - n);
      if (FillOne(failed.position, item).ok()) {
        failed.replaced_by = item;
        return absl::OkStatus();
      }
    }
    return OfSample(
        failed.position, failed.index,
        absl::Status(failed.status.code(),
                     absl::StrCat(failed.status.message(), "; of the ", others,
                                  " items after it, each fails, too")));
  }

  Dataset& dataset_;
  const int64_t size_;  // Of the dataset.
  const BatchLayout& layout_;
  const BatchTask& task_;
  std::byte* const memory_;
  FilledBatch filled_;
};

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
  TENON_ASSIGN_OR_RETURN(const int64_t dataset_size,
                         Catching("Dataset::size()", [&] {
                           return CheckIndices(dataset, task.indices);
                         }));
  if (should_stop()) return absl::CancelledError("the batch was cancelled");
  const auto size = static_cast<int64_t>(task.indices.size());
  if (task.scratch != nullptr) task.scratch->Reset();
  Filler one_by_one(dataset, dataset_size, layout, task, memory);
  if (task.one_by_one || !task.left_out.empty()) {
    return one_by_one.Fill(should_stop);
  }
  SampleBatch samples(SampleSpan(layout, memory, 0, size, task.scratch),
                      task.seed, task.epoch, task.first_position);
  NoteSample(task.now, WorkerNote::kAll);
  const absl::Status status = Catching("Dataset::GetBatch()", [&] {
    return dataset.GetBatch(task.indices, samples);
  });
  if (status.ok()) {
    const absl::Status written = CheckScratch(task);
    if (written.ok()) return FilledBatch{.samples = size, .skipped = {}};
    if (task.on_error == OnSampleError::kFail) return written;
  }
  if (status.ok() || absl::IsUnimplemented(status) ||
      task.on_error != OnSampleError::kFail) {
    return one_by_one.Fill(should_stop);
  }
  return absl::Status(
      status.code(),
      absl::StrCat("samples ", task.first_position, " to ",
                   task.first_position + size - 1, ": ", status.message()));
}

}  // namespace tenon::loader
