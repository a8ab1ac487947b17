// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/loading.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/on_sample_error.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/worker_link.h"

namespace tenon::loader {
namespace {

// An item in the place of `left_out` has ended a worker: goes on after the next
// one. That is this item, or one whose error the worker has seen before. False
// after as many as it would try.
bool TryAnother(int64_t dataset_size, SkippedSample& left_out) {
  const int64_t last =
      left_out.replaced_by >= 0 ? left_out.replaced_by : left_out.index;
  const int64_t tried =
      last - left_out.index + (last < left_out.index ? dataset_size : 0);
  if (tried >= std::min(kReplacements, dataset_size - 1)) return false;
  left_out.replaced_by = last < dataset_size - 1 ? last + 1 : 0;
  return true;
}

}  // namespace

std::string Loading::Describe(const WorkerLink::Task* task) const {
  if (!IsOf(task)) return "";
  if (task->is_of_lane()) {
    return absl::StrCat("sample ", sample_ - 1, " of batch ", task->job.number);
  }
  const int64_t first = task->job.first_position;
  if (sample_ == WorkerNote::kAll) {
    return absl::StrCat("samples ", first, " to ", first + task->count() - 1);
  }
  if (sample_ > task->indices.size()) return "";
  return absl::StrCat("sample ", first + static_cast<int64_t>(sample_) - 1,
                      " (item ", task->indices[sample_ - 1], ")");
}

bool Loading::LeaveOutOf(WorkerLink::Task& task, const absl::Status& end,
                         OnSampleError on_error, int64_t dataset_size) const {
  if (!IsOf(&task)) return false;
  if (sample_ == WorkerNote::kAll) return !std::exchange(task.one_by_one, true);
  if (sample_ > task.indices.size()) return false;
  const int64_t position =
      task.job.first_position + static_cast<int64_t>(sample_) - 1;
  const auto place = std::lower_bound(
      task.left_out.begin(), task.left_out.end(), position,
      [](const SkippedSample& other, int64_t p) { return other.position < p; });
  if (place != task.left_out.end() && place->position == position) {
    return on_error == OnSampleError::kReplace &&
           TryAnother(dataset_size, *place);
  }
  task.left_out.insert(place, {.position = position,
                               .index = task.indices[sample_ - 1],
                               .status = end});
  return true;
}

}  // namespace tenon::loader
