// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolStarter: starts the worker processes of a pool. Not for users.
//
//   absl::StatusOr<PoolWorkers::Workers> started = starter.Start(2);
//   const ThreadLock lock(&mutex);
//   TENON_RETURN_IF_ERROR(workers.Add(std::move(started)));
//
// It is no part of PoolWorkers (pool_workers.h) because it needs no lock: a
// start takes milliseconds.

#ifndef TENON_SPAWN_POOL_INTERNAL_POOL_STARTER_H_
#define TENON_SPAWN_POOL_INTERNAL_POOL_STARTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/spawn/pool/internal/pool_poller.h"
#include "tenon/spawn/pool/internal/pool_workers.h"
#include "tenon/spawn/pool/pool_options.h"

namespace tenon::spawn {

// Ownership: started workers are the caller's.
// Threads: one at a time; started() is thread-safe.
// Failure: a failed call leaves no worker.
class PoolStarter {
 public:
  using Workers = PoolWorkers::Workers;

  // `options` have been validated; `poller` outlives this.
  PoolStarter(PoolOptions options, const PoolPoller& poller);

  // Starts `count` workers, at most as many as share a supervisor; one if no
  // more can be started. Adds them to the poller. Blocks for milliseconds.
  // Errors: those of Process::Start() and of PoolPoller::Add().
  absl::StatusOr<Workers> Start(size_t count);

  // The number of workers started in total.
  uint64_t started() const { return started_.load(std::memory_order_relaxed); }

 private:
  absl::StatusOr<Workers> StartTogether(size_t count);
  absl::Status Initialize(PoolWorkers::Worker& worker);
  absl::Status Watch(const Workers& workers);

  PoolOptions options_;
  const PoolPoller& poller_;
  std::atomic<uint64_t> started_ = 0;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_STARTER_H_
