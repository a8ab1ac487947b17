// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/fill_batch.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/catching.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/sample_threads.h"
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

void MoveSample(const BatchLayout& layout, const BatchTask& task,
                std::byte* memory, int64_t from, int64_t to) {
  for (const BatchLayout::Field& field : layout.fields()) {
    if (field.varying >= 0) continue;
    std::byte* const first = memory + field.offset;
    std::memcpy(first + to * field.sample_bytes,
                first + from * field.sample_bytes,
                static_cast<size_t>(field.sample_bytes));
  }
  if (task.scratch != nullptr) task.scratch->Move(from, to);
}

// Makes samples by Dataset::Get().
class Filler {
 public:
  Filler(Dataset& dataset, int64_t size, const BatchLayout& layout,
         const BatchTask& task, std::byte* memory)
      : dataset_(dataset),
        size_(size),
        layout_(layout),
        task_(task),
        memory_(memory) {}

  // One after the other, in this thread.
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

  // The same by task.threads: each sample has its own slot, and is counted when
  // all have been made.
  absl::StatusOr<FilledBatch> FillByThreads(
      absl::FunctionRef<bool()> should_stop) {
    TENON_ASSIGN_OR_RETURN(std::vector<absl::Status> made,
                           MakeAll(should_stop));
    for (int64_t i = 0; i < std::ssize(made); ++i) {
      absl::Status& status = made[static_cast<size_t>(i)];
      if (status.ok() && i != filled_.samples) {
        MoveSample(layout_, task_, memory_, i, filled_.samples);
      }
      if (status.ok()) status = CountOne();
      if (status.ok()) continue;
      TENON_RETURN_IF_ERROR(
          OnError({task_.first_position + i,
                   task_.indices[static_cast<size_t>(i)], std::move(status)},
                  should_stop));
    }
    return std::move(filled_);
  }

 private:
  // Makes sample i in slot i, for all, and returns how that went. Those after
  // one whose error is the batch's may be missing.
  absl::StatusOr<std::vector<absl::Status>> MakeAll(
      absl::FunctionRef<bool()> should_stop) {
    std::vector<absl::Status> made(task_.indices.size());
    std::atomic<bool> stopped = false;
    std::atomic<int64_t> last = std::ssize(made);
    task_.threads->ForEach(std::ssize(made), [&](int64_t i) {
      constexpr auto kRelaxed = std::memory_order_relaxed;
      if (i > last.load(kRelaxed) || stopped.load(kRelaxed)) return;
      if (should_stop()) {
        stopped.store(true, kRelaxed);
        return;
      }
      absl::Status& status = made[static_cast<size_t>(i)];
      status = MakeOne(task_.first_position + i,
                       task_.indices[static_cast<size_t>(i)], i);
      if (status.ok() || task_.on_error != OnSampleError::kFail) return;
      int64_t seen = last.load(kRelaxed);
      while (i < seen && !last.compare_exchange_weak(seen, i, kRelaxed)) {
      }
    });
    if (stopped) return absl::CancelledError("the batch was cancelled");
    return made;
  }

  // Makes item `index` at `position` in slot `slot` of the batch.
  absl::Status MakeOne(int64_t position, int64_t index, int64_t slot) {
    SampleRandom random(task_.seed, task_.epoch, position);
    if (task_.scratch != nullptr) task_.scratch->Clear(slot);
    TENON_CRASH_POINT("loader.worker.sample_noted");
    Sample sample(layout_, memory_, slot, 1, task_.scratch);
    return Catching("Dataset::Get()",
                    [&] { return dataset_.Get(index, random, sample); });
  }

  // Counts the sample behind those that are counted, if it is complete.
  absl::Status CountOne() {
    if (task_.scratch != nullptr) {
      TENON_RETURN_IF_ERROR(task_.scratch->Check(filled_.samples));
    }
    ++filled_.samples;
    return absl::OkStatus();
  }

  // Makes item `index` at `position`, behind the samples that are there.
  absl::Status FillOne(int64_t position, int64_t index) {
    NoteSample(task_.now,
               static_cast<uint64_t>(position - task_.first_position) + 1);
    absl::Status status = MakeOne(position, index, filled_.samples);
    return status.ok() ? CountOne() : status;
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

// GetBatch() of `count` samples from `first` on.
absl::Status GetInBulk(Dataset& dataset, const BatchLayout& layout,
                       const BatchTask& task, std::byte* memory, int64_t first,
                       int64_t count) {
  SampleBatch samples(SampleSpan(layout, memory, first, count, task.scratch),
                      task.seed, task.epoch, task.first_position + first);
  const auto indices = task.indices.subspan(static_cast<size_t>(first),
                                            static_cast<size_t>(count));
  const absl::Status status = Catching("Dataset::GetBatch()", [&] {
    return dataset.GetBatch(indices, samples);
  });
  if (status.ok() || absl::IsUnimplemented(status)) return status;
  const int64_t position = task.first_position + first;
  return absl::Status(status.code(), absl::StrCat("samples ", position, " to ",
                                                  position + count - 1, ": ",
                                                  status.message()));
}

// GetBatch() of all samples: a part of them in each thread.
absl::Status GetAllInBulk(Dataset& dataset, const BatchLayout& layout,
                          const BatchTask& task, std::byte* memory,
                          absl::FunctionRef<bool()> should_stop) {
  const int64_t size = std::ssize(task.indices);
  const int64_t parts = task.threads == nullptr
                            ? 1
                            : std::min<int64_t>(task.threads->size(), size);
  if (parts <= 1) return GetInBulk(dataset, layout, task, memory, 0, size);
  std::vector<absl::Status> got(static_cast<size_t>(parts));
  task.threads->ForEach(parts, [&](int64_t p) {
    const int64_t first = p * size / parts;
    const int64_t end = (p + 1) * size / parts;
    got[static_cast<size_t>(p)] =
        should_stop()
            ? absl::CancelledError("the batch was cancelled")
            : GetInBulk(dataset, layout, task, memory, first, end - first);
  });
  for (const absl::Status& status : got) TENON_RETURN_IF_ERROR(status);
  return absl::OkStatus();
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
  TENON_ASSIGN_OR_RETURN(const int64_t dataset_size,
                         Catching("Dataset::size()", [&] {
                           return CheckIndices(dataset, task.indices);
                         }));
  if (should_stop()) return absl::CancelledError("the batch was cancelled");
  const auto size = static_cast<int64_t>(task.indices.size());
  if (task.scratch != nullptr) task.scratch->Reset();
  Filler filler(dataset, dataset_size, layout, task, memory);
  if (task.one_by_one || !task.left_out.empty()) {
    return filler.Fill(should_stop);
  }
  NoteSample(task.now, WorkerNote::kAll);
  const absl::Status status =
      GetAllInBulk(dataset, layout, task, memory, should_stop);
  if (status.ok()) {
    const absl::Status written = CheckScratch(task);
    if (written.ok()) return FilledBatch{.samples = size, .skipped = {}};
    if (task.on_error == OnSampleError::kFail) return written;
  }
  if (status.ok() || absl::IsUnimplemented(status) ||
      task.on_error != OnSampleError::kFail) {
    return task.threads == nullptr ? filler.Fill(should_stop)
                                   : filler.FillByThreads(should_stop);
  }
  return status;
}

}  // namespace tenon::loader
