// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/barrier.h"

#include <cxxabi.h>
#include <errno.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/doorbell/futex.h"
#include "tenon/ipc/sync/internal/robust_mutex.h"
#include "tenon/ipc/sync/internal/robust_row.h"
#include "tenon/ipc/sync/internal/sync_block.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {
namespace {

// What `action` returned; an exception becomes an error.
absl::Status Run(const Barrier::Action& action) {
  try {
    return action();
  } catch (const std::exception& thrown) {
    return absl::UnknownError(
        absl::StrCat("Barrier::Wait(): the action threw: ", thrown.what()));
  } catch (...) {
    // Not of C++: the end of this thread, which must go on.
    if (abi::__cxa_current_exception_type() == nullptr) throw;
    return absl::UnknownError(
        "Barrier::Wait(): the action threw something that is no "
        "std::exception");
  }
}

}  // namespace

absl::Status Barrier::Broken(uint32_t why) {
  absl::string_view reason;
  switch (why) {
    case kDied:
      reason = "a party died";
      break;
    case kLate:
      reason = "the deadline of a party passed";
      break;
    case kActionFailed:
      reason = "its action failed or threw";
      break;
    case kAborted:
      reason = "Abort() was called";
      break;
    case kReset:
      return absl::AbortedError(
          "Barrier::Wait(): Reset() of the barrier ended this round; wait "
          "again to take part in the next one");
    default:
      reason = "its memory was overwritten";
  }
  return absl::AbortedError(
      absl::StrCat("Barrier::Wait(): the barrier is broken: ", reason,
                   "; no round completes until Reset()"));
}

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

absl::Status Barrier::Lock(absl::string_view call, Deadline deadline) const {
  const int error = block_->mutex.Lock(deadline);
  if (error == 0) return absl::OkStatus();
  if (error == EOWNERDEAD) {
    Repair();
    return absl::OkStatus();
  }
  switch (error) {
    case ETIMEDOUT:
      return absl::DeadlineExceededError(
          absl::StrCat(call, ": thread ", block_->mutex.Owner(),
                       " is in the middle of a call of the barrier; it is slow "
                       "or stopped, or its action is long"));
    case EDEADLK:
      return absl::FailedPreconditionError(absl::StrCat(
          call,
          ": the barrier is used by its own action; call it after the "
          "round"));
    case ENOLCK:
      return RobustMutex::TooManyHeld(call);
    default:
      return PosixError(error, "pthread_mutex_lock", Layout::kName);
  }
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
  Break(kDied);
  TENON_CRASH_POINT("barrier.repaired");
  block_->mutex.MakeConsistent();
}

size_t Barrier::used() const {
  const uint64_t used =
      StdAtomics::Load(block_->used, std::memory_order_relaxed);
  return std::min<size_t>(used, kRows);
}

absl::StatusOr<RobustRow*> Barrier::TakeRow(absl::string_view call,
                                            uint32_t as) const {
  if (RobustMutex::CountHeld() >= RobustMutex::kMaxHeld) {
    return RobustMutex::TooManyHeld(call);
  }
  for (size_t i = 0; i < kRows; ++i) {
    RobustRow& row = block_->rows[i];
    // Before it is taken: a row that somebody dies in is always seen.
    if (i >= used()) {
      StdAtomics::Store(block_->used, i + 1, std::memory_order_relaxed);
    }
    if (row.TryTake(as)) return &row;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      call, ": all ", kRows, " slots of the barrier, which is for ", parties_,
      " parties, are taken by threads that wait or have joined; let fewer "
      "threads use it"));
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

uint32_t Barrier::broken() const {
  return StdAtomics::Load(block_->broken, std::memory_order_acquire);
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

void Barrier::Break(uint32_t why) const {
  StdAtomics::Store(block_->broken, why, std::memory_order_release);
  TENON_CRASH_POINT("barrier.broken");
  Decide(why);
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
  TENON_RETURN_IF_ERROR(Lock("Barrier::Wait()", deadline));
  // In a child that the action has forked, nothing: the round, the lock and the
  // row are the parent's.
  absl::Cleanup unlock = [this] {
    if (block_.CheckUsable().ok()) Unlock();
  };
  TENON_CRASH_POINT("barrier.locked");
  if (broken() == 0 && SomebodyDied()) Break(kDied);
  if (const uint32_t why = broken(); why != 0) return Broken(why);
  const size_t index = CountRows(kWaiting);
  RobustRow* row = seat;
  if (seat == nullptr) {
    TENON_ASSIGN_OR_RETURN(row, TakeRow("Barrier::Wait()", kWaiting));
  }
  const absl::Cleanup leave = [this, seat, row] {
    if (!block_.CheckUsable().ok()) return;
    if (seat != nullptr) {
      seat->Become(kJoined);
    } else {
      row->GiveBack();
    }
    TENON_CRASH_POINT("barrier.left");
  };
  row->Become(kWaiting);
  TENON_CRASH_POINT("barrier.arrived");
  absl::Status status = Arrive(*row, index, action);
  std::move(unlock).Invoke();
  if (status.ok()) status = Sleep(*row, deadline);
  if (!status.ok()) return status;
  return index;
}

// If this is the last of the parties, lets them all go.
absl::Status Barrier::Arrive(RobustRow& row, size_t index,
                             const Action& action) const {
  if (index + 1 < parties_) return absl::OkStatus();
  if (action) {
    // Also if the end of this thread, or want of memory for an error, unwinds
    // the stack: no other party waits for an action that has ended.
    absl::Cleanup fail = [this] {
      if (block_.CheckUsable().ok()) Break(kActionFailed);
    };
    absl::Status done = Run(action);
    TENON_RETURN_IF_ERROR(block_.CheckUsable());
    TENON_CRASH_POINT("barrier.acted");
    if (!done.ok()) return done;
    std::move(fail).Cancel();
  }
  // One who has died since he came was not there for the action.
  if (SomebodyDied()) {
    Break(kDied);
  } else {
    Decide(kPassed);
  }
  return Outcome(row);
}

// Until the row is decided; if it is not until the deadline, breaks.
absl::Status Barrier::Sleep(RobustRow& row, Deadline deadline) const {
  while (row.is(kWaiting)) {
    const Deadline recheck = Deadline::After(kFutexRecheck);
    KernelFutex::Wait(row.state, kWaiting, Earlier(deadline, recheck));
    if (!row.is(kWaiting)) break;
    if (deadline.has_passed()) return GiveUp(row);
    if ((SomebodyDied() || broken() != 0) &&
        Lock("Barrier::Wait()", recheck).ok()) {
      const uint32_t why = broken();
      if (row.is(kWaiting)) Break(why != 0 ? why : kDied);
      Unlock();
    }
  }
  return Outcome(row);
}

// Of a row that is decided.
absl::Status Barrier::Outcome(const RobustRow& row) {
  const uint32_t state = StdAtomics::Load(row.state, std::memory_order_acquire);
  return state == kPassed ? absl::OkStatus() : Broken(state);
}

// Breaks it, unless the row has been decided.
absl::Status Barrier::GiveUp(RobustRow& row) const {
  const bool locked =
      Lock("Barrier::Wait()", Deadline::After(kFutexRecheck)).ok();
  const bool waits = row.BecomeIf(kWaiting, kLate);
  if (locked) {
    if (waits) Break(kLate);
    Unlock();
  } else if (waits) {
    // Somebody is stopped in the middle of a call; the others find this.
    StdAtomics::Store(block_->broken, kLate, std::memory_order_release);
  }
  if (!waits) return Outcome(row);
  return absl::DeadlineExceededError(
      absl::StrCat("waiting for ", parties_, " parties at a Barrier"));
}

// --- Seats, and the rest. ---

absl::StatusOr<Barrier::Seat> Barrier::Join(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_.CheckUsable());
  TENON_RETURN_IF_ERROR(Lock("Barrier::Join()", deadline));
  auto row = TakeRow("Barrier::Join()", kJoined);
  Unlock();
  TENON_CRASH_POINT("barrier.joined");
  if (!row.ok()) return std::move(row).status();
  return Seat(this, *row);
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
  TENON_RETURN_IF_ERROR(Lock("Barrier::Abort()", deadline));
  Break(kAborted);
  Unlock();
  return absl::OkStatus();
}

absl::Status Barrier::Reset(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_.CheckUsable());
  TENON_RETURN_IF_ERROR(Lock("Barrier::Reset()", deadline));
  Decide(kReset);
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
  return broken() != 0 || SomebodyDied();
}

}  // namespace tenon
