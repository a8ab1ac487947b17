// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The templates of collect.h, the only file that includes this.

#ifndef TENON_FUTURES_COLLECT_DEFINITIONS_H_
#define TENON_FUTURES_COLLECT_DEFINITIONS_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/futures/collect.h"
#include "tenon/futures/internal/collector.h"
#include "tenon/futures/wait_all.h"

namespace tenon::futures {

template <typename T>
Future<std::vector<T>> CollectAll(std::vector<Future<T>> futures) {
  using internal_future::GoalAll;
  if (futures.empty()) {
    Promise<std::vector<T>> none;
    static_cast<void>(none.TrySetValue({}));
    return none.future();
  }
  return internal_future::Collector<GoalAll<T>>::Collect(std::move(futures));
}

template <typename T>
Future<std::vector<Result<T>>> CollectAllSettled(
    std::vector<Future<T>> futures) {
  using internal_future::GoalAllSettled;
  if (futures.empty()) {
    Promise<std::vector<Result<T>>> none;
    static_cast<void>(none.TrySetValue({}));
    return none.future();
  }
  return internal_future::Collector<GoalAllSettled<T>>::Collect(
      std::move(futures));
}

template <typename T>
Future<FirstDone<T>> CollectAny(std::vector<Future<T>> futures) {
  using internal_future::GoalAny;
  if (futures.empty()) {
    Promise<FirstDone<T>> none;
    static_cast<void>(none.TrySetError(
        absl::InvalidArgumentError("CollectAny: of no futures none is ever "
                                   "done")));
    return none.future();
  }
  return internal_future::Collector<GoalAny<T>>::Collect(std::move(futures));
}

template <typename T>
absl::StatusOr<std::vector<T>> WaitAll(std::vector<Future<T>>& futures,
                                       absl::Duration timeout) {
  const absl::Status waited = internal_future::WaitForAll(futures, timeout);
  if (!waited.ok()) return waited;
  std::vector<T> values;
  values.reserve(futures.size());
  for (Future<T>& future : futures) {
    values.push_back(*std::move(future).value());
  }
  return values;
}

}  // namespace tenon::futures

#endif  // TENON_FUTURES_COLLECT_DEFINITIONS_H_
