// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueGetter: takes items from the rings of all slots. Internal to Queue
// (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_GETTER_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_GETTER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/internal/queue_claimer.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/internal/queue_tasks.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// The functions are those of QueueCore (queue_core.h).
// Ownership: context and tasks are the caller's and outlive it.
// Threads: thread-safe; calls that get run one at a time.
class QueueGetter {
 public:
  // After the context's slot was claimed.
  QueueGetter(QueueContext* context, QueueTasks* tasks);

  absl::StatusOr<size_t> Get(std::span<std::byte> out, Deadline deadline,
                             QueueClaimer* claimer);
  absl::StatusOr<size_t> TryGet(std::span<std::byte> out,
                                QueueClaimer* claimer);
  absl::StatusOr<uint64_t> Drain();
  absl::StatusOr<bool> Arm() {
    return endpoint_.Arm([this] { return HasReasonToWake(); });
  }

  // Waits for items, rings putters.
  QueueEndpoint& endpoint() { return endpoint_; }
  const QueueEndpoint& endpoint() const { return endpoint_; }

 private:
  size_t item_bytes() const { return context_.memory.geometry().item_bytes; }
  absl::Status TooSmall(std::span<std::byte> out) const;
  bool HasReasonToWake() const;
  absl::StatusOr<size_t> TakeSome(std::span<std::byte> out,
                                  QueueClaimer* claimer);
  absl::StatusOr<size_t> TakeFromRing(size_t slot, std::span<std::byte> out,
                                      QueueClaimer* claimer);
  absl::Status ClaimAll(size_t slot, std::span<const std::byte> copied,
                        QueueClaimer* claimer, size_t* claimed);
  absl::StatusOr<size_t> ClaimCopied(size_t slot,
                                     std::span<const std::byte> copied,
                                     QueueClaimer* claimer);
  void UndoAll(size_t slot, std::span<const std::byte> copied,
               QueueClaimer* claimer);
  bool TakeAndRing(size_t slot, uint64_t count);
  bool Skips(size_t slot) const;

  QueueContext& context_;
  QueueTasks* const tasks_;  // Null unless items are tasks.
  QueueEndpoint endpoint_;
  // Guarded by the endpoint's mutex.
  std::vector<QueueTaker<>> takers_;
  size_t next_ = 0;  // The slot to visit first.
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_GETTER_H_
