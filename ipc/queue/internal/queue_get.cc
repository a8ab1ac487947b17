// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The half of QueueCore that takes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/doorbell/turn.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/internal/queue_group.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/internal/queue_side.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

using A = StdAtomics;

}  // namespace

bool QueueCore::Is(QueueType type) const {
  return group_->kind().type == static_cast<uint32_t>(type);
}

bool QueueCore::Skips(size_t place) const {
  return place == group_->own() && Is(QueueType::kPipe);
}

// Of what a getter that sleeps is to look at, all but comings and goings.
bool QueueCore::SomethingIsThere() const {
  for (size_t place = 0; place < get_.used(); ++place) {
    const QueueParticipant& words = group_->at(place);
    if (!Skips(place) && A::Load(words.take, std::memory_order_seq_cst) !=
                             A::Load(words.head, std::memory_order_seq_cst)) {
      return true;
    }
  }
  return closed();
}

// Claims what was copied, one after the other. `claimed` of them are; the next
// one is what an error is about.
absl::Status QueueCore::ClaimAll(size_t place,
                                 std::span<const std::byte> copied,
                                 QueueClaimer* claimer, size_t* claimed) {
  const size_t item_bytes = group_->kind().item_bytes;
  const uint64_t first = takers_[place].position();
  for (*claimed = 0; *claimed < copied.size() / item_bytes; ++*claimed) {
    TENON_RETURN_IF_ERROR(
        claimer->Claim({copied.subspan(*claimed * item_bytes, item_bytes),
                        place, first + *claimed}));
    TENON_CRASH_POINT("queue.item_claimed");
  }
  return absl::OkStatus();
}

void QueueCore::UndoAll(size_t place, std::span<const std::byte> copied,
                        QueueClaimer* claimer) {
  const size_t item_bytes = group_->kind().item_bytes;
  const uint64_t first = takers_[place].position();
  for (size_t i = copied.size() / item_bytes; i > 0; --i) {
    claimer->Undo({copied.subspan((i - 1) * item_bytes, item_bytes), place,
                   first + i - 1});
  }
}

// How many of the copied items are claimed and may be taken; 0: look again.
absl::StatusOr<size_t> QueueCore::ClaimCopied(size_t place,
                                              std::span<const std::byte> copied,
                                              QueueClaimer* claimer) {
  // Else the copy may be torn.
  if (!takers_[place].StillThere()) return 0;
  size_t claimed = 0;
  absl::Status failed = ClaimAll(place, copied, claimer, &claimed);
  // What is good comes first, and then the error.
  if (failed.ok() || claimed != 0) return claimed;
  if (!takers_[place].StillThere()) return 0;
  if (absl::IsDataLoss(failed) && !TakeAndRing(place, 1)) return 0;
  return failed;
}

// Moves `take` on, if nobody else has.
bool QueueCore::TakeAndRing(size_t place, uint64_t count) {
  SharedWord<uint64_t>& begun = group_->at(group_->own()).begun;
  const bool tasks = Is(QueueType::kTasks);
  if (tasks) {
    // Before: so that whoever sees the ring empty sees that it is begun.
    A::FetchAdd(begun, count, std::memory_order_seq_cst);
    TENON_CRASH_POINT("queue.begun");
  }
  if (!takers_[place].Take(count)) {
    if (tasks) {
      A::FetchSub(begun, count, std::memory_order_seq_cst);
      // Somebody may have seen it begun, and wait for its end.
      const TurnGuard turn(&done_.turn(), Deadline::Never());
      done_.RingAll();
    }
    return false;
  }
  TENON_CRASH_POINT("queue.taken");
  get_.RingPlace(place);
  return true;
}

absl::StatusOr<size_t> QueueCore::TakeFromRing(size_t place,
                                               std::span<std::byte> out,
                                               QueueClaimer* claimer) {
  const size_t item_bytes = group_->kind().item_bytes;
  QueueTaker<>& taker = takers_[place];
  for (;;) {
    if (!taker.Look()) return Garbage(place);
    if (taker.available() == 0) return 0;
    const size_t fit =
        out.size() < 2 * item_bytes ? 1 : out.size() / item_bytes;
    size_t count = std::min<uint64_t>(taker.available(), fit);
    for (size_t i = 0; i < count; ++i) {
      taker.Copy(i, out.data() + i * item_bytes);
    }
    TENON_CRASH_POINT("queue.copied");
    if (claimer != nullptr) {
      TENON_ASSIGN_OR_RETURN(
          count, ClaimCopied(place, out.first(count * item_bytes), claimer));
      if (count == 0) continue;
    }
    if (TakeAndRing(place, count)) return count;
    if (claimer != nullptr) {
      UndoAll(place, out.first(count * item_bytes), claimer);
    }
  }
}

absl::StatusOr<size_t> QueueCore::TakeSome(std::span<std::byte> out,
                                           QueueClaimer* claimer) {
  const size_t used = get_.used();
  if (next_ >= used) next_ = 0;
  for (size_t i = 0; i < used; ++i) {
    const size_t place = next_;
    next_ = next_ + 1 < used ? next_ + 1 : 0;
    if (Skips(place)) continue;
    TENON_ASSIGN_OR_RETURN(const size_t took,
                           TakeFromRing(place, out, claimer));
    if (took != 0) return took;
  }
  return 0;
}

absl::StatusOr<size_t> QueueCore::TryGet(std::span<std::byte> out,
                                         QueueClaimer* claimer) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  if (out.size() < item_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what_, ": there is no room for an item of ", item_bytes(),
                     " bytes in ", out.size()));
  }
  const TurnGuard turn(&get_.turn(), Deadline::Passed());
  if (!turn.held()) return 0;
  TENON_RETURN_IF_ERROR(get_.Sync());
  return TakeSome(out, claimer);
}

absl::StatusOr<size_t> QueueCore::Get(std::span<std::byte> out,
                                      Deadline deadline,
                                      QueueClaimer* claimer) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  if (out.size() < item_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what_, ": there is no room for an item of ", item_bytes(),
                     " bytes in ", out.size()));
  }
  const TurnGuard turn(&get_.turn(), deadline);
  if (!turn.held()) return TurnIsTaken("getting");
  for (;;) {
    // In this order: what was put before it was closed, or before somebody left
    // or died (which Sync() and Wait() find out), is there when the rings are
    // looked at.
    TENON_RETURN_IF_ERROR(get_.Sync());
    const bool no_more = closed();
    TENON_ASSIGN_OR_RETURN(const size_t took, TakeSome(out, claimer));
    if (took != 0) return took;
    if (no_more) {
      return absl::UnavailableError(
          absl::StrCat(what_, " is closed, and all was got"));
    }
    if (get_.IsAlone()) {
      return absl::UnavailableError(
          absl::StrCat(what_, " is empty, and all others have left or died"));
    }
    TENON_ASSIGN_OR_RETURN(
        const bool go_on,
        get_.Wait([this] { return SomethingIsThere(); }, deadline));
    if (!go_on) {
      return absl::DeadlineExceededError(
          absl::StrCat(what_, ": nothing was put"));
    }
  }
}

absl::StatusOr<uint64_t> QueueCore::Drain() {
  TENON_RETURN_IF_ERROR(CheckUsable());
  if (Is(QueueType::kTasks)) {
    return absl::FailedPreconditionError(
        absl::StrCat(what_, " has tasks, which are to be done"));
  }
  uint64_t all = 0;
  for (size_t place = 0; place < group_->used(); ++place) {
    QueueTaker<> taker = MakeTaker(place);
    for (bool taken = false; !taken;) {
      if (!taker.Look()) return Garbage(place);
      const uint64_t count = taker.available();
      taken = count == 0 || taker.Take(count);
      if (taken) all += count;
    }
  }
  if (all != 0) group_->Announce();
  return all;
}

}  // namespace tenon
