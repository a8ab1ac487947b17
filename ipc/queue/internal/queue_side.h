// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueSide: one thing that a participant of a queue does (get, put, or wait
// for tasks), with a view of its own of who there is: whom to ring, and for
// whose death to wait. Internal to Queue (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_SIDE_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_SIDE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/doorbell/turn.h"
#include "tenon/ipc/queue/internal/queue_group.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Ownership: the group is the caller's and outlives it.
// Threads: whoever holds turn() uses it.
// Failure: each call may be repeated.
class QueueSide {
 public:
  // Rings those who wait for `rings`.
  QueueSide(QueueGroup* group, QueueWait rings)
      : group_(group), rings_(rings) {}
  QueueSide(const QueueSide&) = delete;
  QueueSide& operator=(const QueueSide&) = delete;

  // Makes a bell for waits for `waits`, once a place was claimed.
  // Errors: kResourceExhausted at a limit of descriptors.
  absl::Status MakeBell(QueueWait waits, const std::string& what);

  Turn& turn() { return turn_; }
  Doorbell* bell() const { return bell_.get(); }

  // Learns who has come and gone. One load if nobody has. Errors: as
  // QueueGroup::Refresh().
  absl::Status Sync() {
    if (group_->roster() == roster_) [[likely]]
      return absl::OkStatus();
    return SyncNow();
  }
  bool IsInSync() const { return group_->roster() == roster_; }

  // How many places there are to look at.
  size_t used() const { return used_; }

  // After a publication: rings everybody who sleeps, once for each sleep; or
  // only who holds `place`. Also those who came since Sync(): if they cannot be
  // met, at a limit of descriptors, all are woken through their shelves.
  void RingAll();
  void RingPlace(size_t place);

  // Waits until `ready`, which also says when somebody has come or gone, or
  // until somebody has died, who is noted: true. False at the deadline.
  // Nothing says that `ready` then holds.
  absl::StatusOr<bool> Wait(absl::FunctionRef<bool()> ready, Deadline deadline);

  // Whether there were others, and all have left or died, and the queue is not
  // one in which a participant then waits for new ones. Wait() or a call with
  // a deadline that has passed finds out who has died.
  bool IsAlone();

  // Whether the holder of `place` lives, as far as is known.
  bool Lives(size_t place) const;

  uint64_t rings() const { return rung_; }

 private:
  struct Other {
    std::shared_ptr<const QueueMember> member;
    Ringer<> ringer;
    bool dead = false;
  };

  absl::Status SyncNow();
  bool KnowsLiving() const;
  void Ring(Other& other);
  bool IsSelf(const QueueMember& member) const {
    return member.place == group_->own();
  }

  QueueGroup* const group_;
  const QueueWait rings_;
  Turn turn_;
  std::unique_ptr<Doorbell> bell_;
  uint64_t roster_ = ~uint64_t{0};
  size_t used_ = 0;
  std::vector<Other> others_;  // And this one, who may have other threads.
  uint64_t rung_ = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_SIDE_H_
