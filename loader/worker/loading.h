// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Loading: the sample that a worker notes that it is loading.

#ifndef TENON_LOADER_WORKER_LOADING_H_
#define TENON_LOADER_WORKER_LOADING_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tenon/loader/data/on_sample_error.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/shm/base/atomics.h"

namespace tenon::loader {

// A value.
class Loading {
 public:
  Loading() = default;  // No sample.
  // A snapshot; the worker may write the note meanwhile.
  explicit Loading(const WorkerNote& note)
      : sample_(StdAtomics::Load(note.sample, std::memory_order_acquire)),
        ticket_(StdAtomics::Load(note.ticket, std::memory_order_acquire)) {}

  friend bool operator==(const Loading&, const Loading&) = default;

  // The task that the worker has begun last.
  uint64_t ticket() const { return ticket_; }
  // Whether it is a sample, or all samples, of the task, which may be null.
  bool IsOf(const WorkerLink::Task* task) const {
    return sample_ != WorkerNote::kNone && task != nullptr &&
           task->job.ticket == ticket_;
  }
  // "sample 17 (item 4)", "samples 16 to 31"; empty if not IsOf(task).
  std::string Describe(const WorkerLink::Task* task) const;

  // Adds the sample, of which the worker has died as `end` says, to
  // task.left_out. If it is there already, an item in its place has ended the
  // worker, and the next one is tried under kReplace. A task whose samples were
  // loaded all at once is made one by one. False if the task is unchanged: the
  // sample is of another task, or there is nothing left to try.
  bool LeaveOutOf(WorkerLink::Task& task, const absl::Status& end,
                  OnSampleError on_error, int64_t dataset_size) const;

 private:
  // In this order: a sample is never one of a later task.
  uint64_t sample_ = WorkerNote::kNone;
  uint64_t ticket_ = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_LOADING_H_
