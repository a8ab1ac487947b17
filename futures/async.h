// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Async and ReadyFuture: futures without a promise of the caller.
//
//   Future<Image> image = Async(*pool, [] { return Load("cat.jpg"); });

#ifndef TENON_FUTURES_ASYNC_H_
#define TENON_FUTURES_ASYNC_H_

#include <functional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"

namespace tenon::futures {

// A future that is done, with the value `value`.
template <typename T>
Future<std::decay_t<T>> ReadyFuture(T&& value) {
  Promise<std::decay_t<T>> promise;
  static_cast<void>(promise.TrySetValue(std::forward<T>(value)));
  return promise.future();
}
inline Future<void> ReadyFuture() {
  Promise<void> promise;
  static_cast<void>(promise.TrySetValue());
  return promise.future();
}

// Calls `fn`, which takes nothing, on `executor`, which outlives the call, and
// returns the future of its result, as Then does. If the executor drops the
// task: kAborted.
template <typename F>
auto Async(Executor& executor, F&& fn) {
  return ReadyFuture().Then(
      executor, [fn = std::forward<F>(fn)](const absl::Status&) mutable {
        return std::invoke(std::move(fn));
      });
}

}  // namespace tenon::futures

#endif  // TENON_FUTURES_ASYNC_H_
