// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueGetter: takes items from the rings of all slots. Internal to Queue
// (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_GETTER_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_GETTER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/internal/queue_claimer.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/internal/queue_tasks.h"
#include "tenon/ipc/queue/internal/queue_words.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {

// The outcome of TryGetWords().
enum class QueueTake {
  kTaken,
  kNothing,  // There is no item.
  kOther,    // No effect: call TryGet(), which has all cases and errors.
};

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
  // The short way of TryGet() for one short item of `kWords` words, of a queue
  // of tensors. Claimer has
  //   bool Claim(const std::array<uint64_t, kWords>&)   false: kOther
  //   void Undo()
  // and is used like a QueueClaimer.
  template <size_t kWords, typename Claimer>
  QueueTake TryGetWords(Claimer& claimer);
  absl::StatusOr<uint64_t> Drain();
  absl::StatusOr<bool> Arm() {
    const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex()) {
      return HasReasonToWake();
    };
    return endpoint_.Arm(ready);
  }

  // Waits for items, rings putters.
  QueueEndpoint& endpoint() { return endpoint_; }
  const QueueEndpoint& endpoint() const { return endpoint_; }

 private:
  // Copies of the first items of a ring: whole items, or one short item.
  struct Copied {
    std::span<const std::byte> bytes;
    size_t count = 0;
  };

  size_t item_bytes() const { return context_.memory.geometry().item_bytes; }
  absl::Status TooSmall(std::span<std::byte> out) const;
  bool Skips(size_t slot) const;
  bool HasReasonToWake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  absl::StatusOr<size_t> TakeSome(std::span<std::byte> out,
                                  QueueClaimer* claimer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  // 0 if there is no item and may be one later; else an error.
  absl::StatusOr<size_t> TakeSomeOrEnd(std::span<std::byte> out,
                                       QueueClaimer* claimer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  absl::StatusOr<size_t> WaitAndTake(std::span<std::byte> out,
                                     Deadline deadline, QueueClaimer* claimer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  absl::StatusOr<size_t> TakeFromRing(size_t slot, std::span<std::byte> out,
                                      QueueClaimer* claimer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  Copied CopySome(size_t slot, std::span<std::byte> out, bool short_items) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  QueueItem ItemAt(size_t slot, const Copied& copied, size_t i) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  absl::Status ClaimAll(size_t slot, const Copied& copied,
                        QueueClaimer* claimer, size_t* claimed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  absl::StatusOr<size_t> ClaimCopied(size_t slot, const Copied& copied,
                                     QueueClaimer* claimer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  void UndoAll(size_t slot, const Copied& copied, QueueClaimer* claimer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());
  bool TakeAndRing(QueueTaker<>& taker, size_t slot, uint64_t count)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex());

  QueueContext& context_;
  QueueTasks* const tasks_;  // Null unless items are tasks.
  QueueEndpoint endpoint_;
  std::vector<QueueTaker<>> takers_ ABSL_GUARDED_BY(endpoint_.mutex());
  // The slot to visit first.
  size_t next_ ABSL_GUARDED_BY(endpoint_.mutex()) = 0;
};

// Moves `take`; false if another getter has moved it.
[[gnu::always_inline]] inline bool QueueGetter::TakeAndRing(QueueTaker<>& taker,
                                                            size_t slot,
                                                            uint64_t count) {
  // Before the take: a participant that sees the ring empty also sees the task
  // begun.
  if (tasks_ != nullptr) tasks_->Begin(count);
  if (!taker.Take(count)) {
    if (tasks_ != nullptr) tasks_->Undo(count);
    return false;
  }
  if (tasks_ != nullptr) tasks_->Took(count);
  TENON_CRASH_POINT("queue.taken");
  endpoint_.RingHolder(slot);
  return true;
}

template <size_t kWords, typename Claimer>
QueueTake QueueGetter::TryGetWords(Claimer& claimer) {
  if (context_.fork_count != ForkCount()) return QueueTake::kOther;
  const TimedMutexLock lock(&endpoint_.mutex(), Deadline::Passed());
  if (!lock.held()) return QueueTake::kOther;
  if (!endpoint_.IsInSync()) return QueueTake::kOther;
  const size_t used = endpoint_.used();
  if (next_ >= used) next_ = 0;
  for (size_t i = 0; i < used; ++i) {
    // A copy, whose members stay in registers.
    QueueTaker<> taker = takers_[next_];
    if (!taker.Refresh()) return QueueTake::kOther;
    if (!taker.has_item()) {
      next_ = next_ + 1 < used ? next_ + 1 : 0;
      continue;
    }
    if (taker.BytesAt(0) != sizeof(uint64_t) * kWords) return QueueTake::kOther;
    const auto item = ReadQueueWords<kWords>(taker.slots(), taker.position());
    TENON_CRASH_POINT("queue.copied");
    // Otherwise the copy may be torn.
    if (!taker.StillThere() || !claimer.Claim(item)) return QueueTake::kOther;
    TENON_CRASH_POINT("queue.item_claimed");
    if (!TakeAndRing(taker, next_, 1)) {
      claimer.Undo();
      return QueueTake::kOther;
    }
    next_ = next_ + 1 < used ? next_ + 1 : 0;
    return QueueTake::kTaken;
  }
  return QueueTake::kNothing;
}

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_GETTER_H_
