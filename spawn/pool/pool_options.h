// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolOptions and PoolCounts: the workers of a ProcessPool. Values; see
// process_pool.h.

#ifndef TENON_SPAWN_POOL_POOL_OPTIONS_H_
#define TENON_SPAWN_POOL_POOL_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {

// A call of a TENON_POOL_FUNCTION, made in each worker; so arguments that are
// exclusive to one process are not allowed.
struct PoolInitializer {
  std::string function;  // Empty: none.
  absl::StatusOr<PackedArguments> arguments = PackedArguments();
};

// If `function` is not registered, ProcessPool::Create() fails.
template <typename R, typename... P, typename... A>
PoolInitializer InitializeBy(R (*function)(P...), A&&... arguments) {
  return {PoolFunctionNameOf(reinterpret_cast<void (*)()>(function))
              .value_or("(not registered)"),
          PackCall<std::decay_t<P>...>(std::forward<A>(arguments)...)};
}

struct PoolOptions {
  // Maximum number of workers; 0: the number of processors this process may
  // use.
  int workers = 0;
  // Minimum number of workers, also without tasks; negative: as `workers`.
  // Above it, a worker that has been idle for `idle_timeout` is ended.
  int min_workers = -1;
  absl::Duration idle_timeout = absl::Seconds(60);

  // A worker is replaced after this many tasks, or if its resident memory
  // exceeds this size after a task. 0: never.
  int max_tasks_per_worker = 0;
  int64_t max_worker_rss_bytes = 0;

  // Called once in each worker before its first task: InitializeBy(Setup, 5).
  PoolInitializer initializer;

  // Options for the workers' start. entry, index, argument, fds and
  // kill_on_drop are set by the pool: the index counts all workers it starts,
  // and "{index}" is replaced as in Processes::Start(). The fork method is
  // refused: the pool has a thread.
  ProcessOptions process;
};

struct PoolCounts {
  size_t workers = 0;  // Without those about to end.
  size_t idle = 0;
  size_t pending = 0;    // Tasks that wait for a worker.
  uint64_t started = 0;  // Workers started in total.
};

// Replaces placeholder numbers by their values, and sets the pool's own fields.
// Errors: kInvalidArgument for negative numbers, for a minimum above the
// maximum, and for an initializer's argument that is exclusive to one process;
// kFailedPrecondition for the fork method; kNotFound for an initializer that is
// not a TENON_POOL_FUNCTION; errors of packing its arguments.
absl::Status CheckAndFillIn(PoolOptions& options);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_POOL_OPTIONS_H_
