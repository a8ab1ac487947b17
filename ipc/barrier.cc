// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/barrier.h"

#include <errno.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/futex.h"
#include "tenon/ipc/robust_mutex.h"
#include "tenon/ipc/robust_row.h"
#include "tenon/ipc/sync_block.h"
#include "tenon/shm/atomics.h"
#include "tenon/shm/crash_point.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/segment_options.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

absl::Status Broken() {
  return absl::AbortedError(
      "a Barrier is broken: a party died, came too late, or aborted it");
}

}  // namespace

absl::StatusOr<Barrier> Barrier::Create(size_t parties,
                                        const SegmentOptions& options) {
  if (parties == 0 || parties > kMaxParties) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a Barrier for ", parties, " parties; want 1 to ", kMaxParties));
  }
  TENON_ASSIGN_OR_RETURN(const uint64_t pid_namespace, PidNamespace());
  auto block =
      SyncBlock<Layout>::Create(options, [&](Layout& layout) -> absl::Status {
        layout.pid_namespace = pid_namespace;
        layout.parties = parties;
        for (RobustRow& row : layout.rows) TENON_RETURN_IF_ERROR(row.Init());
        return layout.mutex.Init(RobustMutex::Kind::kErrorCheck);
      });
  if (!block.ok()) return block.status();
  return Barrier(*std::move(block));
}

absl::StatusOr<Barrier> Barrier::Wrap(absl::StatusOr<SyncBlock<Layout>> block) {
  if (!block.ok()) return block.status();
  TENON_RETURN_IF_ERROR(
      CheckPidNamespace((*block)->pid_namespace, Layout::kName));
  return Barrier(*std::move(block));
}

absl::StatusOr<Barrier> Barrier::Adopt(UniqueFd fd) {
  return Wrap(SyncBlock<Layout>::Adopt(std::move(fd)));
}

absl::StatusOr<Barrier> Barrier::Open(absl::string_view name) {
  return Wrap(SyncBlock<Layout>::Open(name));
}

// --- The table, with the lock held. ---

absl::Status Barrier::Lock(Deadline deadline) const {
  const int error = block_->mutex.Lock(deadline);
  if (error == 0) return absl::OkStatus();
  if (error == EOWNERDEAD) {
    Repair();
    return absl::OkStatus();
  }
  if (error == ETIMEDOUT) {
    return absl::DeadlineExceededError(
        absl::StrCat("a Barrier, in which thread ", block_->mutex.Owner(),
                     " is in the middle of a call"));
  }
  if (error == EDEADLK) {
    return absl::FailedPreconditionError("a Barrier is used by its own action");
  }
  return PosixError(error, "pthread_mutex_lock", Layout::kName);
}

void Barrier::Unlock() const {
  TENON_CRASH_POINT("barrier.unlocking");
  block_->mutex.Unlock();
  TENON_CRASH_POINT("barrier.unlocked");
}

// Somebody died in the middle of a call: ends what he had begun, and breaks.
void Barrier::Repair() const {
  const uint32_t verdict =
      StdAtomics::Load(block_->verdict, std::memory_order_acquire);
  if (verdict != 0) Decide(verdict);
  Break();
  TENON_CRASH_POINT("barrier.repaired");
  block_->mutex.MakeConsistent();
}

size_t Barrier::used() const {
  const uint64_t used =
      StdAtomics::Load(block_->used, std::memory_order_relaxed);
  return std::min<size_t>(used, kRows);
}

RobustRow* Barrier::TakeRow(uint32_t as) const {
  for (size_t i = 0; i < kRows; ++i) {
    RobustRow& row = block_->rows[i];
    // Before it is taken: a row that somebody dies in is always seen.
    if (i >= used()) {
      StdAtomics::Store(block_->used, i + 1, std::memory_order_relaxed);
    }
    if (!row.TryTake(as)) continue;
    return &row;
  }
  return nullptr;
}

size_t Barrier::CountRows(uint32_t state) const {
  size_t count = 0;
  for (size_t i = 0; i < used(); ++i) count += block_->rows[i].is(state);
  return count;
}

bool Barrier::SomebodyDied() const {
  if (block_->mutex.OwnerDied()) return true;
  for (size_t i = 0; i < used(); ++i) {
    if (block_->rows[i].IsDead()) return true;
  }
  return false;
}

bool Barrier::is_broken() const {
  return StdAtomics::Load(block_->broken, std::memory_order_acquire) != 0;
}

// Lets all who wait go, each with `verdict`. Once that is stored, it is so:
// who finds the lock left by the dead does the rest.
void Barrier::Decide(uint32_t verdict) const {
  StdAtomics::Store(block_->verdict, verdict, std::memory_order_release);
  TENON_CRASH_POINT("barrier.decided");
  for (size_t i = 0; i < used(); ++i) {
    RobustRow& row = block_->rows[i];
    if (!row.BecomeIf(kWaiting, verdict)) continue;
    TENON_CRASH_POINT("barrier.row_decided");
    KernelFutex::Wake(row.state, 1);
  }
  StdAtomics::Store(block_->verdict, 0, std::memory_order_release);
  TENON_CRASH_POINT("barrier.all_decided");
}

void Barrier::Break() const {
  StdAtomics::Store(block_->broken, 1, std::memory_order_release);
  TENON_CRASH_POINT("barrier.broken");
  Decide(kRefused);
}

// --- Waiting. ---

absl::StatusOr<size_t> Barrier::Wait(Deadline deadline,
                                     const Action& action) const {
  return WaitIn(nullptr, deadline, action);
}

// In `seat`, or, if that is null, in a row of this call's own.
absl::StatusOr<size_t> Barrier::WaitIn(RobustRow* seat, Deadline deadline,
                                       const Action& action) const {
  TENON_RETURN_IF_ERROR(block_.CheckUsable());
  TENON_RETURN_IF_ERROR(Lock(deadline));
  TENON_CRASH_POINT("barrier.locked");
  if (!is_broken() && SomebodyDied()) Break();
  if (is_broken()) {
    Unlock();
    return Broken();
  }
  const size_t index = CountRows(kWaiting);
  RobustRow* const row = seat != nullptr ? seat : TakeRow(kWaiting);
  if (row == nullptr) {
    Unlock();
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kRows, " threads are in a Barrier"));
  }
  row->Become(kWaiting);
  TENON_CRASH_POINT("barrier.arrived");
  absl::Status status = Arrive(*row, index, action);
  Unlock();
  if (status.ok()) status = Sleep(*row, deadline);
  if (seat != nullptr) {
    seat->Become(kJoined);
  } else {
    row->GiveBack();
  }
  TENON_CRASH_POINT("barrier.left");
  if (!status.ok()) return status;
  return index;
}

// If this is the last of the parties, lets them all go.
absl::Status Barrier::Arrive(RobustRow& row, size_t index,
                             const Action& action) const {
  if (index + 1 < parties_) return absl::OkStatus();
  if (action) {
    absl::Status done = action();
    TENON_CRASH_POINT("barrier.acted");
    if (!done.ok()) {
      Break();
      return done;
    }
  }
  // One who has died since he came was not there for the action.
  if (SomebodyDied()) {
    Break();
  } else {
    Decide(kPassed);
  }
  return row.is(kPassed) ? absl::OkStatus() : Broken();
}

// Until the row is decided; if it is not until the deadline, breaks.
absl::Status Barrier::Sleep(RobustRow& row, Deadline deadline) const {
  while (row.is(kWaiting)) {
    const Deadline recheck = Deadline::After(kFutexRecheck);
    KernelFutex::Wait(row.state, kWaiting, Earlier(deadline, recheck));
    if (!row.is(kWaiting)) break;
    if (deadline.has_passed()) return GiveUp(row);
    if ((SomebodyDied() || is_broken()) && Lock(recheck).ok()) {
      if (row.is(kWaiting)) Break();
      Unlock();
    }
  }
  return row.is(kPassed) ? absl::OkStatus() : Broken();
}

// Breaks it, unless the row has been decided.
absl::Status Barrier::GiveUp(RobustRow& row) const {
  const bool locked = Lock(Deadline::After(kFutexRecheck)).ok();
  const bool waits = row.BecomeIf(kWaiting, kRefused);
  if (locked) {
    if (waits) Break();
    Unlock();
  } else if (waits) {
    // Somebody is stopped in the middle of a call; the others find this.
    StdAtomics::Store(block_->broken, 1, std::memory_order_release);
  }
  if (!waits) return row.is(kPassed) ? absl::OkStatus() : Broken();
  return absl::DeadlineExceededError(
      absl::StrCat("waiting for ", parties_, " parties at a Barrier"));
}

// --- Seats, and the rest. ---

absl::StatusOr<Barrier::Seat> Barrier::Join(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_.CheckUsable());
  TENON_RETURN_IF_ERROR(Lock(deadline));
  RobustRow* const row = TakeRow(kJoined);
  Unlock();
  TENON_CRASH_POINT("barrier.joined");
  if (row != nullptr) return Seat(this, row);
  return absl::ResourceExhaustedError(
      absl::StrCat("more than ", kRows, " threads are in a Barrier"));
}

Barrier::Seat& Barrier::Seat::operator=(Seat&& other) noexcept {
  if (this == &other) return *this;
  Leave();
  barrier_ = other.barrier_;
  row_ = std::exchange(other.row_, nullptr);
  return *this;
}

absl::StatusOr<size_t> Barrier::Seat::Wait(Deadline deadline,
                                           const Action& action) const {
  if (row_ == nullptr) {
    return absl::FailedPreconditionError("a Seat that was moved away");
  }
  return barrier_->WaitIn(row_, deadline, action);
}

void Barrier::Seat::Leave() {
  if (row_ == nullptr || !barrier_->block_.CheckUsable().ok()) return;
  row_->GiveBack();
}

absl::Status Barrier::Abort(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_.CheckUsable());
  TENON_RETURN_IF_ERROR(Lock(deadline));
  Break();
  Unlock();
  return absl::OkStatus();
}

absl::Status Barrier::Reset(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_.CheckUsable());
  TENON_RETURN_IF_ERROR(Lock(deadline));
  Decide(kRefused);
  for (size_t i = 0; i < used(); ++i) {
    RobustRow& row = block_->rows[i];
    if (row.IsDead()) row.Bury();
  }
  StdAtomics::Store(block_->broken, 0, std::memory_order_release);
  TENON_CRASH_POINT("barrier.reset");
  Unlock();
  return absl::OkStatus();
}

absl::StatusOr<size_t> Barrier::CountWaiting() const {
  TENON_RETURN_IF_ERROR(block_.CheckUsable());
  // Those who have just been let go, if not yet told so, do not wait.
  if (StdAtomics::Load(block_->verdict, std::memory_order_acquire) != 0) {
    return 0;
  }
  return CountRows(kWaiting);
}

absl::StatusOr<bool> Barrier::IsBroken() const {
  TENON_RETURN_IF_ERROR(block_.CheckUsable());
  return is_broken() || SomebodyDied();
}

}  // namespace tenon
