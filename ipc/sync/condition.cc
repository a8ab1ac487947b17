// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/condition.h"

#include <errno.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/sync/internal/mutex_layout.h"
#include "tenon/ipc/sync/internal/robust_mutex.h"
#include "tenon/ipc/sync/internal/robust_slot.h"
#include "tenon/ipc/sync/internal/sync_block.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/locks/futex.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {

// Everything except the states is read and written under the user's mutex.
struct Condition::Layout {
  static constexpr uint64_t kKind = 0x646e6f436e6f6e54;  // "TnonCond"
  static constexpr char kName[] = "a Condition";
  SharedWord<uint64_t> kind;
  uint64_t pid_namespace;
  uint64_t next_ticket;
  SharedWord<uint64_t> used;  // Slots beyond were never used.
  alignas(64) std::array<RobustSlot, kMaxWaiters> slots;
};

Condition::Condition(Block block)
    : block_(std::move(block)), layout_(block_->layout()) {}
Condition::Condition(Condition&&) noexcept = default;
Condition& Condition::operator=(Condition&&) noexcept = default;
Condition::~Condition() = default;

int Condition::fd() const { return block_->fd(); }
const std::string& Condition::name() const { return block_->name(); }

absl::StatusOr<Condition> Condition::Create(const SegmentOptions& options) {
  TENON_ASSIGN_OR_RETURN(const uint64_t pid_namespace, PidNamespace());
  auto block =
      SyncBlock<Layout>::Create(options, [&](Layout& layout) -> absl::Status {
        layout.pid_namespace = pid_namespace;
        for (RobustSlot& slot : layout.slots)
          TENON_RETURN_IF_ERROR(slot.Init());
        return absl::OkStatus();
      });
  if (!block.ok()) return block.status();
  return Condition(*std::move(block));
}

absl::StatusOr<Condition> Condition::Wrap(absl::StatusOr<Block> block) {
  if (!block.ok()) return block.status();
  TENON_RETURN_IF_ERROR(
      CheckPidNamespace((*block)->layout()->pid_namespace, Layout::kName));
  return Condition(*std::move(block));
}

absl::StatusOr<Condition> Condition::Adopt(UniqueFd fd) {
  return Wrap(SyncBlock<Layout>::Adopt(std::move(fd)));
}

absl::StatusOr<Condition> Condition::Open(absl::string_view name) {
  return Wrap(SyncBlock<Layout>::Open(name));
}

absl::Status Condition::CheckGuard(const Mutex::Guard& guard) const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  if (!guard.owns()) {
    return absl::FailedPreconditionError(
        "Condition: the guard does not hold its Mutex");
  }
  TENON_RETURN_IF_ERROR(
      CheckNotForked(guard.fork_count_, "a Guard of a Mutex"));
  if (guard.layout_->recursive == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "Condition: its Mutex is recursive; use a Mutex that is not");
}

size_t Condition::used() const {
  const uint64_t used =
      StdAtomics::Load(layout_->used, std::memory_order_relaxed);
  return std::min<size_t>(used, kMaxWaiters);
}

// With the mutex held.
absl::StatusOr<RobustSlot*> Condition::TakeSlot() const {
  if (RobustMutex::CountHeld() >= RobustMutex::kMaxHeld) {
    return RobustMutex::TooManyHeld("Condition::Wait()");
  }
  HandleDeadWaiters();
  for (size_t i = 0; i < kMaxWaiters; ++i) {
    RobustSlot& slot = layout_->slots[i];
    // Before the slot is acquired: the slot of a process that dies is always
    // seen.
    if (i >= used()) {
      StdAtomics::Store(layout_->used, i + 1, std::memory_order_relaxed);
    }
    if (!slot.TryAcquire(kWaiting)) continue;
    slot.ticket = layout_->next_ticket++;
    return &slot;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("Condition::Wait(): all ", kMaxWaiters,
                   " slots of the condition are taken by waiters; use a second "
                   "condition for "
                   "some of them"));
}

// With the mutex held. Null if there is no waiter.
RobustSlot* Condition::OldestWaiter() const {
  RobustSlot* oldest = nullptr;
  for (size_t i = 0; i < used(); ++i) {
    RobustSlot& slot = layout_->slots[i];
    if (!slot.is(kWaiting) || slot.IsDead()) continue;
    if (oldest == nullptr || slot.ticket < oldest->ticket) oldest = &slot;
  }
  return oldest;
}

// With the mutex held. False if there is no waiter.
bool Condition::NotifyOldest() const {
  RobustSlot* const slot = OldestWaiter();
  if (slot == nullptr) return false;
  slot->Become(kNotified);
  TENON_CRASH_POINT("condition.notified");
  KernelFutex::Wake(slot->state, 1);
  TENON_CRASH_POINT("condition.woken");
  return true;
}

// With the mutex held. Passes the notifications of dead waiters to others.
void Condition::HandleDeadWaiters() const {
  for (size_t i = 0; i < used(); ++i) {
    RobustSlot& slot = layout_->slots[i];
    if (!slot.IsDead()) continue;
    if (slot.is(kNotified)) NotifyOldest();
    slot.Reclaim();
  }
}

// Whether a process died with the mutex or a notification, or another one has
// unlocked the mutex of a dead holder without a repair.
bool Condition::AnyDied(const RobustMutex& mutex) const {
  if (mutex.OwnerDied() || mutex.IsUnrecoverable()) return true;
  for (size_t i = 0; i < used(); ++i) {
    const RobustSlot& slot = layout_->slots[i];
    if (slot.is(kNotified) && slot.IsDead()) return true;
  }
  return false;
}

absl::StatusOr<size_t> Condition::Notify(const Mutex::Guard& guard,
                                         size_t count) const {
  TENON_RETURN_IF_ERROR(CheckGuard(guard));
  HandleDeadWaiters();
  size_t notified = 0;
  while (notified < count && NotifyOldest()) ++notified;
  return notified;
}

absl::StatusOr<size_t> Condition::CountWaiters(
    const Mutex::Guard& guard) const {
  TENON_RETURN_IF_ERROR(CheckGuard(guard));
  size_t count = 0;
  for (size_t i = 0; i < used(); ++i) {
    const RobustSlot& slot = layout_->slots[i];
    if (slot.is(kWaiting) && !slot.IsDead()) ++count;
  }
  return count;
}

// Sleeps until the slot is notified, or until `deadline`: EBUSY. Or until a
// death ends the wait: then the result of TryLock() of the mutex, which may now
// be held.
int Condition::Sleep(RobustSlot& slot, RobustMutex& mutex,
                     Deadline deadline) const {
  while (slot.is(kWaiting) && !deadline.has_passed()) {
    const Deadline recheck = Deadline::After(kFutexRecheck);
    KernelFutex::Wait(slot.state, kWaiting, Earlier(deadline, recheck));
    if (!slot.is(kWaiting) || !recheck.has_passed()) continue;
    if (const int error = InheritFromDead(slot, mutex); error != EBUSY) {
      return error;
    }
  }
  return EBUSY;
}

// If a process died with the mutex, or with a notification: inherits either.
// Returns 0 or EOWNERDEAD with the mutex held; ENOTRECOVERABLE if it can never
// be locked again; EBUSY if there is nothing to inherit.
int Condition::InheritFromDead(RobustSlot& slot, RobustMutex& mutex) const {
  if (!AnyDied(mutex)) return EBUSY;
  const int error = mutex.TryLock();
  if (error != 0) return error;  // If EBUSY, its holder may handle it.
  TENON_CRASH_POINT("condition.inheriting");
  HandleDeadWaiters();
  if (slot.is(kNotified)) return 0;
  mutex.Unlock();
  return EBUSY;
}

absl::Status Condition::Wait(Mutex::Guard& guard, Deadline deadline) const {
  TENON_RETURN_IF_ERROR(CheckGuard(guard));
  if (guard.owner_died_) {
    return absl::FailedPreconditionError(
        "Condition::Wait(): the last holder of the Mutex died; call "
        "MakeConsistent() first");
  }
  TENON_ASSIGN_OR_RETURN(RobustSlot* const slot, TakeSlot());
  TENON_CRASH_POINT("condition.waiting");
  RobustMutex& mutex = guard.layout_->mutex;
  if (mutex.Unlock() != 0) {
    slot->Release();
    return absl::FailedPreconditionError(
        "Condition::Wait(): another thread holds the Mutex");
  }
  TENON_CRASH_POINT("condition.unlocked");
  int error = Sleep(*slot, mutex, deadline);
  if (error == EBUSY) error = mutex.Lock(Deadline::Never());
  TENON_CRASH_POINT("condition.relocked");
  const bool notified = slot->is(kNotified);
  slot->Release();
  guard.owner_died_ = error == EOWNERDEAD;
  if (error != 0 && !guard.owner_died_) {
    const absl::Status status = Mutex::Describe(error, *guard.layout_);
    guard.layout_ = nullptr;
    return status;
  }
  if (notified || guard.owner_died_) return absl::OkStatus();
  return absl::DeadlineExceededError(
      "Condition::Wait(): no notification before the deadline");
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
          "Condition::WaitFor(): a holder of the Mutex died during the wait; "
          "repair the data and call MakeConsistent()");
    }
  }
  return absl::OkStatus();
}

}  // namespace tenon
