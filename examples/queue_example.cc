// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/queue_example.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

absl::StatusOr<spawn::Process> StartWithQueues(
    const char* entry, absl::Span<TensorQueue* const> queues) {
  spawn::ProcessOptions options = {.entry = entry};
  ArchiveWriter argument;
  for (const TensorQueue* queue : queues) {
    TENON_ASSIGN_OR_RETURN(QueueHandle handle, queue->Share());
    argument.PutString(handle.bytes);
    argument.Put(uint64_t{handle.fds.size()});
    for (UniqueFd& fd : handle.fds) options.fds.push_back(std::move(fd));
  }
  options.argument = std::move(argument).bytes();
  return spawn::Process::Start(std::move(options));
}

absl::StatusOr<std::unique_ptr<TensorQueue>> OpenQueue(spawn::Child& child,
                                                       size_t index) {
  ArchiveReader argument(child.argument());
  size_t first = 0;
  for (size_t i = 0;; ++i) {
    QueueHandle handle;
    TENON_ASSIGN_OR_RETURN(handle.bytes, argument.GetString());
    TENON_ASSIGN_OR_RETURN(const uint64_t fds, argument.Get<uint64_t>());
    first += i == index ? 0 : fds;
    if (i != index) continue;
    for (size_t fd = first; fd < first + fds; ++fd) {
      handle.fds.push_back(child.TakeFd(fd));
    }
    return TensorQueue::Open(std::move(handle));
  }
}

absl::StatusOr<TensorMessage> GetOne(TensorQueue& queue, bool spinning) {
  if (!spinning) return queue.Get(Soon());
  constexpr int kTurnsBetweenLooks = 1 << 20;  // Checks for peers.
  for (int turn = 1;; ++turn) {
    TENON_ASSIGN_OR_RETURN(auto message, queue.TryGet());
    if (message) return *std::move(message);
    if (turn % kTurnsBetweenLooks != 0) continue;
    auto last = queue.Get(Deadline::Passed());
    if (!absl::IsDeadlineExceeded(last.status())) return last;
    turn = 0;
  }
}

absl::Status ForEach(TensorQueue& queue,
                     absl::FunctionRef<absl::Status(TensorMessage&)> use,
                     const bool* spinning) {
  for (;;) {
    auto message = GetOne(queue, spinning != nullptr && *spinning);
    if (absl::IsUnavailable(message.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(message.status());
    TENON_RETURN_IF_ERROR(use(*message));
  }
}

uint64_t SystemCalls(TensorQueue& put, TensorQueue& got) {
  return put.stats().put_wakes + got.stats().get_sleeps;
}

}  // namespace tenon
