// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueuePutter: puts items into the ring of a participant's slot. Internal to
// Queue (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_PUTTER_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_PUTTER_H_

#include <array>
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
#include "tenon/ipc/queue/internal/queue_words.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/locks/timed_mutex.h"

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
        writer_(context->memory.MakeWriter(context->membership.slot())),
        short_below_(context->memory.geometry().has_short_items()
                         ? context->memory.geometry().item_bytes
                         : 0) {}

  absl::Status Put(std::span<const std::byte> items, Deadline deadline);
  absl::StatusOr<bool> TryPut(std::span<const std::byte> items);
  // The short way of TryPut() for a short item of `kWords` words, of a queue
  // of tensors. False, without effect, if there is no room, if it is not a
  // short item of this queue, and on any error or change of the membership:
  // call TryPut().
  template <size_t kWords>
  bool TryPutWords(const std::array<uint64_t, kWords>& item);
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
  // Of `count` written items; then rings the getters.
  void Publish(uint64_t count, uint64_t short_words)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  absl::StatusOr<bool> PutNow(std::span<const std::byte> items, uint64_t count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  absl::Status WaitAndPut(std::span<const std::byte> items, uint64_t count,
                          Deadline deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  bool RoomOrEnd(uint64_t count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex()) {
    return !writer_.Refresh() || writer_.KnowsRoom(count) || context_.closed();
  }

  QueueContext& context_;
  QueueEndpoint endpoint_;
  QueueWriter<> writer_ ABSL_GUARDED_BY(endpoint_.mutex());
  // Short items have fewer bytes; 0 if there are none.
  const size_t short_below_;
};

[[gnu::always_inline]] inline void QueuePutter::Publish(uint64_t count,
                                                        uint64_t short_words) {
  TENON_CRASH_POINT("queue.written");
  writer_.Publish(count, context_.memory.publication(), short_words);
  TENON_CRASH_POINT("queue.published");
  writer_.StoreHead();
  TENON_CRASH_POINT("queue.counted");
  endpoint_.RingAll();
}

template <size_t kWords>
[[gnu::always_inline]] inline bool QueuePutter::TryPutWords(
    const std::array<uint64_t, kWords>& item) {
  static_assert(kWords <= QueueSequence::kMaxShortWords);
  if (kWords * sizeof(uint64_t) >= short_below_ ||
      context_.fork_count != ForkCount()) [[unlikely]] {
    return false;
  }
  const TimedMutexLock lock(&endpoint_.mutex(), Deadline::Passed());
  if (!lock.held()) return false;
  if (!endpoint_.IsInSync() || context_.closed()) return false;
  if (!writer_.KnowsRoom(1) && !(writer_.Refresh() && writer_.KnowsRoom(1))) {
    return false;
  }
  WriteQueueWords(writer_.slots(), writer_.head(), item);
  Publish(1, kWords);
  return true;
}

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_PUTTER_H_
