// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolOptions: the workers of a ProcessPool. A value; see process_pool.h.

#ifndef TENON_SPAWN_POOL_POOL_OPTIONS_H_
#define TENON_SPAWN_POOL_POOL_OPTIONS_H_

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

// A call of a TENON_POOL_FUNCTION, to be made in each worker; so no argument
// may be one that only one process can have.
struct PoolInitializer {
  std::string function;  // Empty: none.
  absl::StatusOr<PackedArguments> arguments = PackedArguments();
};

// A `function` that is not registered is found out by ProcessPool::Create().
template <typename R, typename... P, typename... A>
PoolInitializer InitializeBy(R (*function)(P...), A&&... arguments) {
  return {PoolFunctionNameOf(reinterpret_cast<void (*)()>(function))
              .value_or("(not registered)"),
          PackCall<std::decay_t<P>...>(std::forward<A>(arguments)...)};
}

struct PoolOptions {
  // How many at most; 0: as many as there are processors for this process.
  int workers = 0;
  // How many even if there is nothing to do; negative: as many as at most.
  // Above it, one that has been idle for `idle_timeout` is ended.
  int min_workers = -1;
  absl::Duration idle_timeout = absl::Seconds(60);

  // A worker that has done so many tasks, or has so much resident after one, is
  // replaced. 0: never.
  int max_tasks_per_worker = 0;
  int64_t max_worker_rss_bytes = 0;

  // Called once in each worker before its first task: InitializeBy(Setup, 5).
  PoolInitializer initializer;

  // How they are started. entry, index, argument, fds and daemon are the
  // pool's: the index counts all that it starts, and "{index}" is replaced as
  // in Processes::Start(). The fork method is refused: the pool has a thread.
  ProcessOptions process;
};

// Replaces what stands for a number by it, and fills in what is the pool's.
// Errors: kInvalidArgument for negative numbers or more at least than at most,
// and for an initializer's argument that only one process can have;
// kFailedPrecondition for the fork method; kNotFound for an initializer that is
// no TENON_POOL_FUNCTION; that of its arguments.
absl::Status CheckAndFillIn(PoolOptions& options);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_POOL_OPTIONS_H_
