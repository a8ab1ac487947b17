// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// EpochRange: the batches of one epoch of a loader.
//
//   for (absl::StatusOr<Batch>& batch : photos->Epoch(0)) {
//     if (!batch.ok()) return batch.status();  // Names the worker.
//     Use(*batch->data<int64_t>("label"));
//   }
//
// Or, with a deadline of its own for each batch:
//
//   EpochRange epoch = photos->Epoch(0);
//   while (true) {
//     TENON_ASSIGN_OR_RETURN(std::optional<Batch> batch, epoch.Next(deadline));
//     if (!batch) break;  // The end of the epoch.
//     Use(*batch->data<int64_t>("label"));
//   }

#ifndef TENON_LOADER_EPOCH_RANGE_H_
#define TENON_LOADER_EPOCH_RANGE_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/loader/data/batch.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::loader {

class Loader;

// An input range: it can be iterated over once.
// Ownership: refers to the loader, which must outlive the range.
// Threads: as the loader: thread-compatible.
// Failure: after an error of a batch (a sample's) Next() returns the following
//   batch; after kDeadlineExceeded it may be called again. All other errors are
//   the loader's, and final.
class EpochRange {
 public:
  // The current batch of an iteration, or an error in its place. An iteration
  // ends after an error of the loader, and continues after an error of a batch.
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using value_type = absl::StatusOr<Batch>;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    explicit Iterator(EpochRange* range) : range_(range) {}

    absl::StatusOr<Batch>& operator*() const { return range_->current_; }
    absl::StatusOr<Batch>* operator->() const { return &range_->current_; }
    Iterator& operator++() {
      range_->Advance();
      return *this;
    }
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t) {
      return a.AtEnd();
    }

   private:
    bool AtEnd() const { return range_->ended_; }

    EpochRange* range_ = nullptr;
  };

  // For loaders. `timeout` bounds the wait for each batch of an iteration.
  EpochRange(Loader* loader, uint64_t ticket, absl::Duration timeout)
      : loader_(loader), ticket_(ticket), timeout_(timeout) {}
  EpochRange(const EpochRange&) = delete;
  EpochRange& operator=(const EpochRange&) = delete;

  // The next batch, or nothing at the end of the epoch. Blocks until the batch
  // has been made or `deadline` passes. Without workers this call makes the
  // batch, and the deadline does not interrupt it. Errors:
  //   kDeadlineExceeded    names what each worker does; try again
  //   the error of a sample, with worker, position and item, if options say
  //     kFail; the next batch may be good. A sample's kDeadlineExceeded or
  //     kCancelled is kInternal with its name in the text
  //   kFailedPrecondition  another epoch was begun after this one
  //   kCancelled           after Loader::Cancel()
  //   kAborted             a worker was killed or ended by itself: worker, pid,
  //                        signal or exit code
  //   the error of a dataset that cannot be made in a worker; kAborted for
  //     kDeadlineExceeded and kCancelled
  //   kDataLoss            a worker sent a malformed message
  absl::StatusOr<std::optional<Batch>> Next(
      Deadline deadline = Deadline::Never());

  // Begins the iteration, by waiting for the first batch. The errors of Next()
  // are elements; kDeadlineExceeded ends the iteration. A second begin() is a
  // kFailedPrecondition element.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  friend class Loader;

  void Advance();

  Loader* loader_;
  uint64_t ticket_;  // Of the epoch in its loader.
  absl::Duration timeout_;
  bool begun_ = false;
  bool ended_ = false;
  bool last_ = false;  // The current element is the last.
  absl::StatusOr<Batch> current_ = absl::CancelledError();
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_EPOCH_RANGE_H_
