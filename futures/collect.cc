// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/collect.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/futures/async.h"
#include "tenon/futures/future.h"
#include "tenon/futures/internal/collector.h"
#include "tenon/futures/wait_all.h"

namespace tenon::futures {

Future<void> CollectAll(std::vector<Future<void>> futures) {
  using internal_future::GoalAll;
  if (futures.empty()) return ReadyFuture();
  return internal_future::Collector<GoalAll<void>>::Collect(std::move(futures));
}

absl::Status WaitAll(std::vector<Future<void>>& futures,
                     absl::Duration timeout) {
  absl::Status waited = internal_future::WaitForAll(futures, timeout);
  if (waited.ok()) {
    for (Future<void>& future : futures) future = Future<void>();
  }
  return waited;
}

}  // namespace tenon::futures
