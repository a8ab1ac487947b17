// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/barrier.h"

#include <cxxabi.h>
#include <errno.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/sync/internal/robust_mutex.h"
#include "tenon/ipc/sync/internal/robust_slot.h"
#include "tenon/ipc/sync/internal/sync_block.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/locks/futex.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {
namespace {

// The result of `action`; an exception becomes an error.
absl::Status Run(const Barrier::Action& action) {
  try {
    return action();
  } catch (const std::exception& thrown) {
    return absl::UnknownError(
        absl::StrCat("Barrier::Wait(): the action threw: ", thrown.what()));
  } catch (...) {
    // Not a C++ exception: the end of this thread, which must continue.
    if (abi::__cxa_current_exception_type() == nullptr) throw;
    return absl::UnknownError(
        "Barrier::Wait(): the action threw an object that is not a "
        "std::exception");
  }
}

}  // namespace

struct Barrier::Layout {
  static constexpr uint64_t kKind = 0x726961426e6f6e54;  // "TnonBair"
  static constexpr char kName[] = "a Barrier";
  SharedWord<uint64_t> kind;
  uint64_t pid_namespace;
  uint64_t parties;
  SharedWord<uint32_t> broken;  // The cause; 0 if it is not broken.
  // The next state of the waiting slots, or 0.
  SharedWord<uint32_t> verdict;
  SharedWord<uint64_t> used;  // Slots beyond were never used.
  RobustMutex mutex;          // Guards everything but the atomic words.
  alignas(64) std::array<RobustSlot, kSlots> slots;
};

Barrier::Barrier(Block block)
    : block_(std::move(block)),
      layout_(block_->layout()),
      parties_(layout_->parties) {}
Barrier::Barrier(Barrier&&) noexcept = default;
Barrier& Barrier::operator=(Barrier&&) noexcept = default;
Barrier::~Barrier() = default;

int Barrier::fd() const { return block_->fd(); }
const std::string& Barrier::name() const { return block_->name(); }

absl::Status Barrier::Broken(uint32_t why) {
  absl::string_view reason;
  switch (why) {
    case kDied:
      reason = "a participant died";
      break;
    case kLate:
      reason = "the deadline of a participant passed";
      break;
    case kActionFailed:
      reason = "its action failed or threw";
      break;
    case kAborted:
      reason = "Abort() was called";
      break;
    case kReset:
      return absl::AbortedError(
          "Barrier::Wait(): Reset() ended this round; wait again to join the "
          "next round");
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
        "Barrier::Create(): ", parties, " parties; want 1 to ", kMaxParties));
  }
  TENON_ASSIGN_OR_RETURN(const uint64_t pid_namespace, PidNamespace());
  auto block =
      SyncBlock<Layout>::Create(options, [&](Layout& layout) -> absl::Status {
        layout.pid_namespace = pid_namespace;
        layout.parties = parties;
        for (RobustSlot& slot : layout.slots)
          TENON_RETURN_IF_ERROR(slot.Init());
        return layout.mutex.Init(RobustMutex::Kind::kErrorCheck);
      });
  if (!block.ok()) return block.status();
  return Barrier(*std::move(block));
}

absl::StatusOr<Barrier> Barrier::Wrap(absl::StatusOr<Block> block) {
  if (!block.ok()) return block.status();
  TENON_RETURN_IF_ERROR(
      CheckPidNamespace((*block)->layout()->pid_namespace, Layout::kName));
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
  const int error = layout_->mutex.Lock(deadline);
  if (error == 0) return absl::OkStatus();
  if (error == EOWNERDEAD) {
    Repair();
    return absl::OkStatus();
  }
  switch (error) {
    case ETIMEDOUT:
      return absl::DeadlineExceededError(
          absl::StrCat(call, ": thread ", layout_->mutex.Owner(),
                       " is in the middle of a call on the barrier: it is slow "
                       "or stopped, or its action takes long"));
    case EDEADLK:
      return absl::FailedPreconditionError(absl::StrCat(
          call,
          ": called by the barrier's own action; call it after the round"));
    case ENOLCK:
      return RobustMutex::TooManyHeld(call);
    default:
      return PosixError(error, "pthread_mutex_lock", Layout::kName);
  }
}

void Barrier::Unlock() const {
  TENON_CRASH_POINT("barrier.unlocking");
  layout_->mutex.Unlock();
  TENON_CRASH_POINT("barrier.unlocked");
}

// A participant died in the middle of a call: completes its change, and breaks
// the barrier.
void Barrier::Repair() const {
  const uint32_t verdict =
      StdAtomics::Load(layout_->verdict, std::memory_order_acquire);
  if (verdict != 0) Decide(verdict);
  Break(kDied);
  TENON_CRASH_POINT("barrier.repaired");
  layout_->mutex.MakeConsistent();
}

size_t Barrier::used() const {
  const uint64_t used =
      StdAtomics::Load(layout_->used, std::memory_order_relaxed);
  return std::min<size_t>(used, kSlots);
}

absl::StatusOr<RobustSlot*> Barrier::TakeSlot(absl::string_view call,
                                              uint32_t as) const {
  if (RobustMutex::CountHeld() >= RobustMutex::kMaxHeld) {
    return RobustMutex::TooManyHeld(call);
  }
  for (size_t i = 0; i < kSlots; ++i) {
    RobustSlot& slot = layout_->slots[i];
    // Before the slot is acquired: the slot of a participant that dies is
    // always seen.
    if (i >= used()) {
      StdAtomics::Store(layout_->used, i + 1, std::memory_order_relaxed);
    }
    if (slot.TryAcquire(as)) return &slot;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      call, ": all ", kSlots, " slots of a barrier of ", parties_,
      " parties are taken by threads that wait or have joined; use it "
      "from fewer threads"));
}

size_t Barrier::CountSlots(uint32_t state) const {
  size_t count = 0;
  for (size_t i = 0; i < used(); ++i) count += layout_->slots[i].is(state);
  return count;
}

bool Barrier::AnyDied() const {
  if (layout_->mutex.OwnerDied()) return true;
  for (size_t i = 0; i < used(); ++i) {
    if (layout_->slots[i].IsDead()) return true;
  }
  return false;
}

uint32_t Barrier::broken() const {
  return StdAtomics::Load(layout_->broken, std::memory_order_acquire);
}

// Ends all waits with `verdict`. The store of the verdict decides: if this
// thread dies after it, the next one that finds the abandoned lock does the
// rest.
void Barrier::Decide(uint32_t verdict) const {
  StdAtomics::Store(layout_->verdict, verdict, std::memory_order_release);
  TENON_CRASH_POINT("barrier.decided");
  for (size_t i = 0; i < used(); ++i) {
    RobustSlot& slot = layout_->slots[i];
    if (!slot.BecomeIf(kWaiting, verdict)) continue;
    TENON_CRASH_POINT("barrier.row_decided");
    KernelFutex::Wake(slot.state, 1);
  }
  StdAtomics::Store(layout_->verdict, 0, std::memory_order_release);
  TENON_CRASH_POINT("barrier.all_decided");
}

void Barrier::Break(uint32_t why) const {
  StdAtomics::Store(layout_->broken, why, std::memory_order_release);
  TENON_CRASH_POINT("barrier.broken");
  Decide(why);
}

// --- Waiting. ---

absl::StatusOr<size_t> Barrier::Wait(Deadline deadline,
                                     const Action& action) const {
  return WaitIn(nullptr, deadline, action);
}

// In `seat`, or, if that is null, in a slot of this call's own.
absl::StatusOr<size_t> Barrier::WaitIn(RobustSlot* seat, Deadline deadline,
                                       const Action& action) const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  TENON_RETURN_IF_ERROR(Lock("Barrier::Wait()", deadline));
  // Not in a child that the action has forked: the round, the lock and the slot
  // are the parent's.
  absl::Cleanup unlock = [this] {
    if (block_->CheckUsable().ok()) Unlock();
  };
  TENON_CRASH_POINT("barrier.locked");
  if (broken() == 0 && AnyDied()) Break(kDied);
  if (const uint32_t why = broken(); why != 0) return Broken(why);
  const size_t index = CountSlots(kWaiting);
  RobustSlot* slot = seat;
  if (seat == nullptr) {
    TENON_ASSIGN_OR_RETURN(slot, TakeSlot("Barrier::Wait()", kWaiting));
  }
  const absl::Cleanup leave = [this, seat, slot] {
    if (!block_->CheckUsable().ok()) return;
    if (seat != nullptr) {
      seat->Become(kJoined);
    } else {
      slot->Release();
    }
    TENON_CRASH_POINT("barrier.left");
  };
  slot->Become(kWaiting);
  TENON_CRASH_POINT("barrier.arrived");
  absl::Status status = Arrive(*slot, index, action);
  std::move(unlock).Invoke();
  if (status.ok()) status = Sleep(*slot, deadline);
  if (!status.ok()) return status;
  return index;
}

// If this is the last participant to arrive, ends all waits.
absl::Status Barrier::Arrive(RobustSlot& slot, size_t index,
                             const Action& action) const {
  if (index + 1 < parties_) return absl::OkStatus();
  if (action) {
    // Also if the end of this thread, or a lack of memory for an error, unwinds
    // the stack: no other participant waits for an action that has ended.
    absl::Cleanup fail = [this] {
      if (block_->CheckUsable().ok()) Break(kActionFailed);
    };
    absl::Status done = Run(action);
    TENON_RETURN_IF_ERROR(block_->CheckUsable());
    TENON_CRASH_POINT("barrier.acted");
    if (!done.ok()) return done;
    std::move(fail).Cancel();
  }
  // A participant that has died since its arrival did not see the action.
  if (AnyDied()) {
    Break(kDied);
  } else {
    Decide(kPassed);
  }
  return Outcome(slot);
}

// Sleeps until the slot is decided; breaks the barrier at the deadline.
absl::Status Barrier::Sleep(RobustSlot& slot, Deadline deadline) const {
  while (slot.is(kWaiting)) {
    const Deadline recheck = Deadline::After(kFutexRecheck);
    KernelFutex::Wait(slot.state, kWaiting, Earlier(deadline, recheck));
    if (!slot.is(kWaiting)) break;
    if (deadline.has_passed()) return BreakLate(slot);
    if ((AnyDied() || broken() != 0) && Lock("Barrier::Wait()", recheck).ok()) {
      const uint32_t why = broken();
      if (slot.is(kWaiting)) Break(why != 0 ? why : kDied);
      Unlock();
    }
  }
  return Outcome(slot);
}

// The result of a decided slot.
absl::Status Barrier::Outcome(const RobustSlot& slot) {
  const uint32_t state =
      StdAtomics::Load(slot.state, std::memory_order_acquire);
  return state == kPassed ? absl::OkStatus() : Broken(state);
}

// Breaks the barrier, unless the slot has been decided.
absl::Status Barrier::BreakLate(RobustSlot& slot) const {
  const bool locked =
      Lock("Barrier::Wait()", Deadline::After(kFutexRecheck)).ok();
  const bool waits = slot.BecomeIf(kWaiting, kLate);
  if (locked) {
    if (waits) Break(kLate);
    Unlock();
  } else if (waits) {
    // A participant is stopped in the middle of a call; the others find this.
    StdAtomics::Store(layout_->broken, kLate, std::memory_order_release);
  }
  if (!waits) return Outcome(slot);
  return absl::DeadlineExceededError(
      absl::StrCat("Barrier::Wait(): fewer than ", parties_,
                   " participants arrived before the deadline"));
}

// --- Seats, and other functions. ---

absl::StatusOr<Barrier::Seat> Barrier::Join(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  TENON_RETURN_IF_ERROR(Lock("Barrier::Join()", deadline));
  auto slot = TakeSlot("Barrier::Join()", kJoined);
  Unlock();
  TENON_CRASH_POINT("barrier.joined");
  if (!slot.ok()) return std::move(slot).status();
  return Seat(this, *slot);
}

Barrier::Seat& Barrier::Seat::operator=(Seat&& other) noexcept {
  if (this == &other) return *this;
  Leave();
  barrier_ = other.barrier_;
  slot_ = std::exchange(other.slot_, nullptr);
  return *this;
}

absl::StatusOr<size_t> Barrier::Seat::Wait(Deadline deadline,
                                           const Action& action) const {
  if (slot_ == nullptr) {
    return absl::FailedPreconditionError(
        "Seat::Wait(): this Seat was moved from");
  }
  return barrier_->WaitIn(slot_, deadline, action);
}

void Barrier::Seat::Leave() {
  if (slot_ == nullptr || !barrier_->block_->CheckUsable().ok()) return;
  slot_->Release();
}

absl::Status Barrier::Abort(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  TENON_RETURN_IF_ERROR(Lock("Barrier::Abort()", deadline));
  Break(kAborted);
  Unlock();
  return absl::OkStatus();
}

absl::Status Barrier::Reset(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  TENON_RETURN_IF_ERROR(Lock("Barrier::Reset()", deadline));
  Decide(kReset);
  for (size_t i = 0; i < used(); ++i) {
    RobustSlot& slot = layout_->slots[i];
    if (slot.IsDead()) slot.Reclaim();
  }
  StdAtomics::Store(layout_->broken, 0, std::memory_order_release);
  TENON_CRASH_POINT("barrier.reset");
  Unlock();
  return absl::OkStatus();
}

absl::StatusOr<size_t> Barrier::CountWaiting() const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  // Participants that were just released, and not woken yet, do not wait.
  if (StdAtomics::Load(layout_->verdict, std::memory_order_acquire) != 0) {
    return 0;
  }
  return CountSlots(kWaiting);
}

absl::StatusOr<bool> Barrier::IsBroken() const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  return broken() != 0 || AnyDied();
}

}  // namespace tenon
