// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueuePutter: puts items into the ring of a participant's slot. Internal to
// Queue (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_PUTTER_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_PUTTER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// The functions are those of QueueCore (queue_core.h).
// Ownership: the context is the caller's and outlives it.
// Threads: thread-safe; calls that put run one at a time.
class QueuePutter {
 public:
  // After the context's slot was claimed.
  explicit QueuePutter(QueueContext* context)
      : context_(*context),
        endpoint_(context, QueueWait::kGet),
        writer_(context->memory.MakeWriter(context->membership.slot())) {}

  absl::Status Put(std::span<const std::byte> items, Deadline deadline);
  absl::StatusOr<bool> TryPut(std::span<const std::byte> items);
  absl::StatusOr<bool> IsAlone();
  absl::StatusOr<bool> Arm() {
    const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex()) {
      return RoomOrEnd(1);
    };
    return endpoint_.Arm(ready);
  }

  // Waits for room, rings getters.
  QueueEndpoint& endpoint() { return endpoint_; }
  const QueueEndpoint& endpoint() const { return endpoint_; }

 private:
  absl::StatusOr<uint64_t> Count(std::span<const std::byte> items) const;
  bool IsShortItem(size_t bytes) const;
  absl::StatusOr<bool> PutNow(std::span<const std::byte> items, uint64_t count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  bool RoomOrEnd(uint64_t count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex()) {
    return !writer_.Refresh() || writer_.KnowsRoom(count) || context_.closed();
  }

  QueueContext& context_;
  QueueEndpoint endpoint_;
  QueueWriter<> writer_ ABSL_GUARDED_BY(endpoint_.mutex());
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_PUTTER_H_
