// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests that wait for futures.

#ifndef TENON_FUTURES_FUTURE_TESTING_H_
#define TENON_FUTURES_FUTURE_TESTING_H_

#include <utility>

#include "absl/time/time.h"
#include "tenon/futures/future.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::futures {

// For waits that normally end much earlier: a watchdog, not a promise.
inline constexpr absl::Duration kWatchdog = absl::Minutes(2);

// The result of `future`: absl::StatusOr<T>, or absl::Status of a Future<void>.
template <typename T>
auto Get(Future<T> future) -> decltype(std::move(future).value()) {
  TENON_RETURN_IF_ERROR(future.Wait(kWatchdog));
  return std::move(future).value();
}

}  // namespace tenon::futures

#endif  // TENON_FUTURES_FUTURE_TESTING_H_
