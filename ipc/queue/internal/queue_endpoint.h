// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueEndpoint: one activity of a queue's participant (get, put, or wait for
// tasks) with its own view of the membership: which participants to ring, and
// for whose death to wait. Internal to Queue (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_ENDPOINT_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_ENDPOINT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_members.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {

// Ownership: the context is the caller's and outlives it.
// Threads: used by the thread that holds mutex(), except for the functions that
//   do not require it; those for event loops acquire it.
// Failure: each call may be repeated.
class QueueEndpoint {
 public:
  // Rings the participants that wait for `rung`.
  QueueEndpoint(QueueContext* context, QueueWait rung)
      : context_(*context), rung_(rung) {}
  QueueEndpoint(const QueueEndpoint&) = delete;
  QueueEndpoint& operator=(const QueueEndpoint&) = delete;

  // Makes a bell for waits for `waits`, after a slot was claimed and before
  // other threads use this. Returns its descriptor, still owned here. Errors:
  // kResourceExhausted at a limit of descriptors.
  absl::StatusOr<int> MakeBell(QueueWait waits);

  TimedMutex& mutex() const ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // Brings the view of the membership up to date: a single load if it has not
  // changed. Errors: as QueueMembers::Refresh().
  absl::Status Sync() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (IsInSync()) [[likely]]
      return absl::OkStatus();
    return SyncNow();
  }
  bool IsInSync() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return context_.memory.membership() == membership_;
  }

  // The number of slots to visit.
  size_t used() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return used_; }

  // After a publication: rings all sleeping participants, once for each sleep;
  // RingHolder() rings only the holder of `slot`. Includes participants
  // that have joined since Sync(): if their descriptors cannot be received, at
  // a limit of descriptors, all participants are woken through their boards.
  void RingAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // A compiler barrier only: a fence from outside then orders the publication
    // before the load of the membership.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    SyncToRing();
    for (Other& other : others_) Ring(other);
  }
  void RingHolder(size_t slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    SyncToRing();
    for (Other& other : others_) {
      if (other.slot == slot) Ring(other);
    }
  }

  // Waits until `ready` holds, the membership changes, or a participant dies,
  // whose death is noted: true. False at the deadline. After true, `ready` need
  // not hold.
  absl::StatusOr<bool> Wait(absl::FunctionRef<bool()> ready, Deadline deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // At the end of a call: adds the time for which it has slept in Wait(), if it
  // has, to `waits`, which the holder of the mutex writes.
  void NoteWaited(TimeWords& waits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (asleep_ns_ > 0) waits.Add(asleep_ns_);
    asleep_ns_ = 0;
  }

  // Why no other participant can be waited for: "all others have left or died";
  // or, if there has never been one, that all processes that were given the
  // queue have ended (queue_guests.h). Empty if there are others or may come,
  // such as a process that was given the queue and has yet to open it, and if
  // the queue's participants wait for new ones (wait_when_alone). Deaths are
  // noted by Wait(), also with a deadline that has passed.
  std::string WhyAlone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Whether the holder of `slot` is alive, as far as is known.
  bool Lives(size_t slot) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // For event loops: see Doorbell; `ready` is called with the mutex held.
  // Errors: its; kFailedPrecondition if another thread holds the mutex, when
  // Disarm() does nothing.
  absl::StatusOr<int> PollFd();
  absl::StatusOr<bool> Arm(absl::FunctionRef<bool()> ready);
  void Disarm();

  // Calls of poll() in finished waits, and participants rung. Thread-safe.
  uint64_t sleeps() const { return sleeps_.load(std::memory_order_relaxed); }
  uint64_t rings() const { return rings_.load(std::memory_order_relaxed); }

 private:
  struct Other {
    std::shared_ptr<const QueueMember> member;
    size_t slot;  // The member's.
    const SharedWord<uint64_t>* sleeping;
    Ringer<> ringer;
    bool dead = false;
  };

  absl::Status SyncNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status InUse(absl::string_view call) const;
  bool KnowsLiving() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether a process that was given the queue lives and has not opened it yet.
  bool AwaitsGuest();
  // A participant that has joined meanwhile and sleeps has not seen the
  // publication.
  void SyncToRing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!IsInSync() && !SyncNow().ok()) [[unlikely]]
      context_.members.WakeThroughBoards();
  }
  void Ring(Other& other) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (other.ringer.MustRing(*other.sleeping)) [[unlikely]]
      RingNow(other);
  }
  void RingNow(const Other& other) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsSelf(const QueueMember& member) const {
    return member.slot == context_.membership.slot();
  }

  QueueContext& context_;
  const QueueWait rung_;
  mutable TimedMutex mutex_;
  std::unique_ptr<Doorbell> bell_ ABSL_PT_GUARDED_BY(mutex_);
  uint64_t membership_ ABSL_GUARDED_BY(mutex_) = ~uint64_t{0};
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  // Includes this participant, which may have other threads.
  std::vector<Other> others_ ABSL_GUARDED_BY(mutex_);
  uint64_t asleep_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // Of the current call.
  // Written by the holder of the mutex.
  std::atomic<uint64_t> sleeps_ = 0;
  std::atomic<uint64_t> rings_ = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_ENDPOINT_H_
