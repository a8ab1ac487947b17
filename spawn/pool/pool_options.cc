// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/pool_options.h"

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/settings/processors.h"

namespace tenon::spawn {
namespace {

absl::Status CheckInitializer(const PoolInitializer& initializer) {
  if (initializer.function.empty()) return absl::OkStatus();
  if (!FindPoolFunction(initializer.function)) {
    return absl::NotFoundError(absl::StrCat(
        "the initializer is no TENON_POOL_FUNCTION: '", initializer.function,
        "'; there are: ", absl::StrJoin(PoolFunctionNames(), ", ")));
  }
  TENON_RETURN_IF_ERROR(initializer.arguments.status());
  if (initializer.arguments->only_for_one.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the initializer is called in every worker, and in each that replaces "
      "one; ",
      initializer.arguments->only_for_one, " can be given to one process"));
}

}  // namespace

absl::Status CheckAndFillIn(PoolOptions& options) {
  if (options.workers == 0) options.workers = UsableProcessors();
  if (options.workers < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pool of ", options.workers, " workers"));
  }
  if (options.min_workers < 0) options.min_workers = options.workers;
  if (options.min_workers > options.workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pool of at least ", options.min_workers,
                     " workers and at most ", options.workers));
  }
  if (options.max_tasks_per_worker < 0 || options.max_worker_rss_bytes < 0) {
    return absl::InvalidArgumentError(
        "a worker cannot end after less than no task or memory");
  }
  if (options.process.method == StartMethod::kFork) {
    return absl::FailedPreconditionError(
        "a pool has a thread, so its workers cannot be forked");
  }
  TENON_RETURN_IF_ERROR(CheckInitializer(options.initializer));
  options.process.entry = "tenon.spawn.pool_worker";
  options.process.argument = options.max_worker_rss_bytes > 0 ? "rss" : "";
  options.process.daemon = true;
  return absl::OkStatus();
}

}  // namespace tenon::spawn
