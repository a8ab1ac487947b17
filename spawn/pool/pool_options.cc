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
    return absl::NotFoundError(
        absl::StrCat("the initializer '", initializer.function,
                     "' is not a TENON_POOL_FUNCTION; registered: ",
                     absl::StrJoin(PoolFunctionNames(), ", ")));
  }
  TENON_RETURN_IF_ERROR(initializer.arguments.status());
  if (initializer.arguments->exclusive.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the initializer is called in every worker; ",
      initializer.arguments->exclusive, " can be given to only one process"));
}

}  // namespace

absl::Status CheckAndFillIn(PoolOptions& options) {
  if (options.workers == 0) options.workers = UsableProcessors();
  if (options.workers < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PoolOptions::workers is ", options.workers, "; want at least 0"));
  }
  if (options.min_workers < 0) options.min_workers = options.workers;
  if (options.min_workers > options.workers) {
    return absl::InvalidArgumentError(
        absl::StrCat("PoolOptions::min_workers is ", options.min_workers,
                     "; want at most ", options.workers, " (workers)"));
  }
  if (options.max_tasks_per_worker < 0 || options.max_worker_rss_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("PoolOptions::max_tasks_per_worker is ",
                     options.max_tasks_per_worker, ", max_worker_rss_bytes ",
                     options.max_worker_rss_bytes, "; want at least 0"));
  }
  if (options.process.method == StartMethod::kFork) {
    return absl::FailedPreconditionError(
        "workers cannot be forked: the pool has a thread");
  }
  TENON_RETURN_IF_ERROR(CheckInitializer(options.initializer));
  options.process.entry = "tenon.spawn.pool_worker";
  options.process.argument = options.max_worker_rss_bytes > 0 ? "rss" : "";
  options.process.kill_on_drop = true;
  return absl::OkStatus();
}

}  // namespace tenon::spawn
