// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/condition.h"

#include <errno.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/doorbell/futex.h"
#include "tenon/ipc/sync/internal/robust_mutex.h"
#include "tenon/ipc/sync/internal/robust_row.h"
#include "tenon/ipc/sync/internal/sync_block.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {

absl::StatusOr<Condition> Condition::Create(const SegmentOptions& options) {
  TENON_ASSIGN_OR_RETURN(const uint64_t pid_namespace, PidNamespace());
  auto block =
      SyncBlock<Layout>::Create(options, [&](Layout& layout) -> absl::Status {
        layout.pid_namespace = pid_namespace;
        for (RobustRow& row : layout.rows) TENON_RETURN_IF_ERROR(row.Init());
        return absl::OkStatus();
      });
  if (!block.ok()) return block.status();
  return Condition(*std::move(block));
}

absl::StatusOr<Condition> Condition::Wrap(
    absl::StatusOr<SyncBlock<Layout>> block) {
  if (!block.ok()) return block.status();
  TENON_RETURN_IF_ERROR(
      CheckPidNamespace((*block)->pid_namespace, Layout::kName));
  return Condition(*std::move(block));
}

absl::StatusOr<Condition> Condition::Adopt(UniqueFd fd) {
  return Wrap(SyncBlock<Layout>::Adopt(std::move(fd)));
}

absl::StatusOr<Condition> Condition::Open(absl::string_view name) {
  return Wrap(SyncBlock<Layout>::Open(name));
}

absl::Status Condition::CheckGuard(const Mutex::Guard& guard) const {
  TENON_RETURN_IF_ERROR(block_.CheckUsable());
  if (!guard.owns()) {
    return absl::FailedPreconditionError(
        "a Condition is used with a Mutex that is not held");
  }
  TENON_RETURN_IF_ERROR(
      CheckNotForked(guard.fork_count_, "a Guard of a Mutex"));
  if (guard.layout_->recursive == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "a Condition is used with a recursive Mutex");
}

size_t Condition::used() const {
  const uint64_t used =
      StdAtomics::Load(block_->used, std::memory_order_relaxed);
  return std::min<size_t>(used, kMaxWaiters);
}

// With the mutex held.
absl::StatusOr<RobustRow*> Condition::TakeRow() const {
  if (RobustMutex::CountHeld() >= RobustMutex::kMaxHeld) {
    return RobustMutex::TooManyHeld("Condition::Wait()");
  }
  SettleTheDead();
  for (size_t i = 0; i < kMaxWaiters; ++i) {
    RobustRow& row = block_->rows[i];
    // Before it is taken: the row of a process that dies is always seen.
    if (i >= used()) {
      StdAtomics::Store(block_->used, i + 1, std::memory_order_relaxed);
    }
    if (!row.TryTake(kWaiting)) continue;
    row.ticket = block_->next_ticket++;
    return &row;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "Condition::Wait(): all ", kMaxWaiters,
      " slots of the condition are taken by waiters; use another condition for "
      "some of them"));
}

// With the mutex held. Null if there is no waiter.
RobustRow* Condition::OldestWaiter() const {
  RobustRow* oldest = nullptr;
  for (size_t i = 0; i < used(); ++i) {
    RobustRow& row = block_->rows[i];
    if (!row.is(kWaiting) || row.IsDead()) continue;
    if (oldest == nullptr || row.ticket < oldest->ticket) oldest = &row;
  }
  return oldest;
}

// With the mutex held. False if there is no waiter.
bool Condition::NotifyOldest() const {
  RobustRow* const row = OldestWaiter();
  if (row == nullptr) return false;
  row->Become(kNotified);
  TENON_CRASH_POINT("condition.notified");
  KernelFutex::Wake(row->state, 1);
  TENON_CRASH_POINT("condition.woken");
  return true;
}

// With the mutex held. What the dead had been notified of goes to others.
void Condition::SettleTheDead() const {
  for (size_t i = 0; i < used(); ++i) {
    RobustRow& row = block_->rows[i];
    if (!row.IsDead()) continue;
    if (row.is(kNotified)) NotifyOldest();
    row.Bury();
  }
}

// Or has unlocked what a dead holder left without a repair.
bool Condition::SomebodyDied(const RobustMutex& mutex) const {
  if (mutex.OwnerDied() || mutex.IsUnrecoverable()) return true;
  for (size_t i = 0; i < used(); ++i) {
    const RobustRow& row = block_->rows[i];
    if (row.is(kNotified) && row.IsDead()) return true;
  }
  return false;
}

absl::StatusOr<size_t> Condition::Notify(const Mutex::Guard& guard,
                                         size_t count) const {
  TENON_RETURN_IF_ERROR(CheckGuard(guard));
  SettleTheDead();
  size_t notified = 0;
  while (notified < count && NotifyOldest()) ++notified;
  return notified;
}

absl::StatusOr<size_t> Condition::CountWaiters(
    const Mutex::Guard& guard) const {
  TENON_RETURN_IF_ERROR(CheckGuard(guard));
  size_t count = 0;
  for (size_t i = 0; i < used(); ++i) {
    const RobustRow& row = block_->rows[i];
    if (row.is(kWaiting) && !row.IsDead()) ++count;
  }
  return count;
}

// Until the row is notified, or `deadline`: EBUSY. Or until a death ends the
// wait: then what TryLock() of the mutex has answered, which may be that it is
// held now.
int Condition::Sleep(RobustRow& row, RobustMutex& mutex,
                     Deadline deadline) const {
  while (row.is(kWaiting) && !deadline.has_passed()) {
    const Deadline recheck = Deadline::After(kFutexRecheck);
    KernelFutex::Wait(row.state, kWaiting, Earlier(deadline, recheck));
    if (!row.is(kWaiting) || !recheck.has_passed()) continue;
    if (const int error = TakeFromTheDead(row, mutex); error != EBUSY) {
      return error;
    }
  }
  return EBUSY;
}

// If a process died with the mutex, or with a notification: inherits either.
// Returns 0 or EOWNERDEAD with the mutex held; ENOTRECOVERABLE if nobody gets
// it any more; EBUSY if there is nothing to inherit.
int Condition::TakeFromTheDead(RobustRow& row, RobustMutex& mutex) const {
  if (!SomebodyDied(mutex)) return EBUSY;
  const int error = mutex.TryLock();
  if (error != 0) return error;  // If EBUSY, its holder may see to it.
  TENON_CRASH_POINT("condition.inheriting");
  SettleTheDead();
  if (row.is(kNotified)) return 0;
  mutex.Unlock();
  return EBUSY;
}

absl::Status Condition::Wait(Mutex::Guard& guard, Deadline deadline) const {
  TENON_RETURN_IF_ERROR(CheckGuard(guard));
  if (guard.owner_died_) {
    return absl::FailedPreconditionError(
        "a Condition is waited for with a Mutex whose last holder died: "
        "MakeConsistent() first");
  }
  TENON_ASSIGN_OR_RETURN(RobustRow* const row, TakeRow());
  TENON_CRASH_POINT("condition.waiting");
  RobustMutex& mutex = guard.layout_->mutex;
  if (mutex.Unlock() != 0) {
    row->GiveBack();
    return absl::FailedPreconditionError(
        "a Condition is waited for with a Mutex that another thread holds");
  }
  TENON_CRASH_POINT("condition.unlocked");
  int error = Sleep(*row, mutex, deadline);
  if (error == EBUSY) error = mutex.Lock(Deadline::Never());
  TENON_CRASH_POINT("condition.relocked");
  const bool notified = row->is(kNotified);
  row->GiveBack();
  guard.owner_died_ = error == EOWNERDEAD;
  if (error != 0 && !guard.owner_died_) {
    const absl::Status status = Mutex::Describe(error, *guard.layout_);
    guard.layout_ = nullptr;
    return status;
  }
  if (notified || guard.owner_died_) return absl::OkStatus();
  return absl::DeadlineExceededError("waiting for a Condition");
}

absl::Status Condition::WaitFor(Mutex::Guard& guard,
                                absl::FunctionRef<bool()> is_true,
                                Deadline deadline) const {
  TENON_RETURN_IF_ERROR(CheckGuard(guard));
  while (!is_true()) {
    const absl::Status waited = Wait(guard, deadline);
    if (absl::IsDeadlineExceeded(waited) && !guard.owner_died()) {
      return is_true() ? absl::OkStatus() : waited;
    }
    TENON_RETURN_IF_ERROR(waited);
    if (guard.owner_died()) {
      return absl::AbortedError(
          "a holder of the Mutex died while this thread waited");
    }
  }
  return absl::OkStatus();
}

}  // namespace tenon
