// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The blocking half of WaitAll: internal to collect.h.

#ifndef TENON_FUTURES_WAIT_ALL_H_
#define TENON_FUTURES_WAIT_ALL_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/futures/future.h"
#include "tenon/futures/internal/collector.h"
#include "tenon/futures/internal/future_callback.h"
#include "tenon/futures/internal/future_state.h"

namespace tenon::futures::internal_future {

// Done when all counted futures are done, or one has failed. Shared by the
// waiting call and the callbacks it leaves behind.
class AllDone {
 public:
  void Add() { pending_.fetch_add(1, std::memory_order_relaxed); }

  // Called when a future is done, and once when all have been added.
  void Count(const absl::Status& ended_with) {
    if (!ended_with.ok()) ended_.TrySetError(ended_with);
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      ended_.TrySetValue();
    }
  }

  // False if the deadline came first.
  bool WaitUntil(SteadyTime deadline) {
    return Access::StateOf(end_)->WaitUntil(deadline);
  }
  absl::Status error() const { return end_.value(); }

 private:
  std::atomic<size_t> pending_ = 1;
  Promise<void> ended_;
  Future<void> end_ = ended_.future();
};

absl::Status NotAllDoneError(size_t not_done, size_t of,
                             absl::Duration timeout);

// Waits until one fails, or until all are done and their callbacks have
// returned.
template <typename T>
absl::Status WaitForAll(const std::vector<Future<T>>& futures,
                        absl::Duration timeout) {
  const SteadyTime deadline = DeadlineAfter(timeout);
  const auto all = std::make_shared<AllDone>();
  for (const Future<T>& future : futures) {
    if (future.done()) {
      if (!future.value().ok()) return StatusOf(future.value());
      continue;
    }
    all->Add();
    future.AddDoneCallback(
        [all](const Result<T>& result) { all->Count(StatusOf(result)); });
  }
  all->Count(absl::OkStatus());
  bool in_time = all->WaitUntil(deadline);
  if (in_time && !all->error().ok()) return all->error();
  size_t not_done = 0;
  for (const Future<T>& future : futures) {
    if (!future.done()) {
      ++not_done;
    } else if (in_time) {
      in_time = Access::StateOf(future)->WaitUntil(deadline);
    }
  }
  if (!in_time) return NotAllDoneError(not_done, futures.size(), timeout);
  for (const Future<T>& future : futures) {
    // In a callback of the same future.
    if (!Access::StateOf(future)->IsFinished()) return NotFinishedError();
  }
  return absl::OkStatus();
}

}  // namespace tenon::futures::internal_future

#endif  // TENON_FUTURES_WAIT_ALL_H_
