// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The templates of process_pool.h; include that.

#ifndef TENON_SPAWN_POOL_PROCESS_POOL_DEFINITIONS_H_
#define TENON_SPAWN_POOL_PROCESS_POOL_DEFINITIONS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/futures/future.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/pool/internal/pool_dispatcher.h"
#include "tenon/spawn/pool/internal/pool_receivers.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/pool/result_stream.h"

namespace tenon::spawn {

template <typename T>
futures::Future<T> ProcessPool::Call(
    const TaskOptions& options, absl::StatusOr<std::string> function,
    absl::StatusOr<PackedArguments> arguments) const {
  const uint64_t id = core_->NewTaskId();
  auto receiver =
      std::make_unique<internal_pool::PromiseReceiver<T>>(core_, id);
  futures::Future<T> future = receiver->future();
  absl::Status bad = function.status();
  bad.Update(arguments.status());
  if (!bad.ok()) {
    receiver->Receive(bad);
    return future;
  }
  PoolTask task = {.function = *std::move(function),
                   .calls = {},
                   .receivers = {},
                   .deadline = options.deadline,
                   .id = id,
                   .kill_on_cancel = options.kill_on_cancel};
  task.calls.push_back(*std::move(arguments));
  task.receivers.push_back(std::move(receiver));
  core_->Submit(std::move(task));
  return future;
}

template <typename R, typename P>
auto ProcessPool::Map(R (*function)(P),
                      const std::vector<std::decay_t<P>>& inputs,
                      const MapOptions& options) const {
  using Result = typename internal_pool::ResultOf<R>::Type;
  const uint64_t id = core_->NewTaskId();
  auto map = std::make_shared<internal_pool::MapState<Result>>(inputs.size(),
                                                               core_, id);
  auto future = map->future();
  const absl::StatusOr<std::string> name =
      NameOfPooled(reinterpret_cast<void (*)()>(function));
  size_t chunk = options.chunk_size;
  if (chunk == 0) {
    chunk = std::max<size_t>(inputs.size() / (4 * core_->max_workers()), 1);
  }
  for (size_t begin = 0; begin < inputs.size(); begin += chunk) {
    PoolTask task = {.function = name.value_or(""),
                     .calls = {},
                     .receivers = {},
                     .deadline = options.deadline,
                     .id = id};
    for (size_t i = begin; i < std::min(begin + chunk, inputs.size()); ++i) {
      auto receiver =
          std::make_unique<internal_pool::MapReceiver<Result>>(map, i);
      absl::StatusOr<PackedArguments> call =
          name.ok() ? PackCall<std::decay_t<P>>(inputs[i]) : name.status();
      if (!call.ok()) {
        receiver->Receive(call.status());
        continue;
      }
      task.calls.push_back(*std::move(call));
      task.receivers.push_back(std::move(receiver));
    }
    if (!task.calls.empty()) core_->Submit(std::move(task));
  }
  return future;
}

template <typename R, typename P>
ResultStream<typename internal_pool::ResultOf<R>::Type> ProcessPool::Stream(
    R (*function)(P), InputGenerator<std::decay_t<P>> next,
    const StreamOptions& options) const {
  using Result = typename internal_pool::ResultOf<R>::Type;
  return ResultStream<Result>(
      core_, NameOfPooled(reinterpret_cast<void (*)()>(function)),
      [next = std::move(
           next)]() mutable -> absl::StatusOr<std::optional<PackedArguments>> {
        absl::StatusOr<std::optional<std::decay_t<P>>> input = next();
        if (!input.ok()) return input.status();
        if (!input->has_value()) return std::optional<PackedArguments>();
        absl::StatusOr<PackedArguments> call =
            PackCall<std::decay_t<P>>(**std::move(input));
        if (!call.ok()) return call.status();
        return std::optional<PackedArguments>(*std::move(call));
      },
      options);
}

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_PROCESS_POOL_DEFINITIONS_H_
