// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Cancellation: a request to stop that any thread, or a signal handler, may
// make, and that a poll loop sees at once; and a request to end an epoch.

#ifndef TENON_LOADER_DATA_CANCELLATION_H_
#define TENON_LOADER_DATA_CANCELLATION_H_

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::loader {

// Ownership: owns an eventfd.
// Threads: thread-safe.
// Processes: a forked child must not call Cancel(): it shares the eventfd, and
//   would wake its parent, which is not cancelled.
// Memory order: what a thread wrote before Cancel() is visible to a thread that
//   has read is_cancelled() true.
class Cancellation {
 public:
  // Errors: kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<std::unique_ptr<Cancellation>> Create();

  // Async-signal-safe; preserves errno. Cannot be undone.
  void Cancel();

  bool is_cancelled() const {
    return cancelled_.load(std::memory_order_acquire);
  }
  // For poll(): readable once cancelled.
  int fd() const { return event_.get(); }

  // A request to begin no other batch, until EndDrain(). It wakes no waiter:
  // the batches that are awaited have been begun. Async-signal-safe.
  void Drain() { draining_.store(true, std::memory_order_relaxed); }
  void EndDrain() { draining_.store(false, std::memory_order_relaxed); }
  bool is_draining() const { return draining_.load(std::memory_order_relaxed); }

  static absl::Status Error() {
    return absl::CancelledError("the loader was cancelled");
  }

 private:
  explicit Cancellation(UniqueFd event) : event_(std::move(event)) {}

  std::atomic<bool> cancelled_{false};
  std::atomic<bool> draining_{false};
  static_assert(std::atomic<bool>::is_always_lock_free);
  UniqueFd event_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_CANCELLATION_H_
