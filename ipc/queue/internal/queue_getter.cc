// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_getter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/queue/internal/queue_claimer.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/internal/queue_tasks.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {

QueueGetter::QueueGetter(QueueContext* context, QueueTasks* tasks)
    : context_(*context),
      tasks_(context->Is(QueueType::kTasks) ? tasks : nullptr),
      endpoint_(context, QueueWait::kPut),
      next_(context->membership.slot()) {
  const QueueMemory& memory = context->memory;
  for (size_t slot = 0; slot < memory.geometry().participants; ++slot) {
    takers_.push_back(memory.MakeTaker(slot));
  }
}

absl::Status QueueGetter::TooSmall(std::span<std::byte> out) const {
  return absl::InvalidArgumentError(
      absl::StrCat("Get(): an item of ", context_.what, " has ", item_bytes(),
                   " bytes; `out` has room for ", out.size()));
}

// Whether the items of `slot` are not for this participant.
bool QueueGetter::Skips(size_t slot) const {
  return slot == context_.membership.slot() && context_.Is(QueueType::kPipe);
}

// Whether a sleeping getter has a reason to wake, changes of membership aside.
bool QueueGetter::HasReasonToWake() {
  for (size_t slot = 0; slot < endpoint_.used(); ++slot) {
    if (Skips(slot)) continue;
    if (!takers_[slot].Refresh() || takers_[slot].has_item()) return true;
  }
  return context_.closed();
}

// Copies as many items from a ring that has some as fit into `out`. A short
// item is copied alone; without `short_items`, with the rest of its slot.
QueueGetter::Copied QueueGetter::CopySome(size_t slot, std::span<std::byte> out,
                                          bool short_items) const {
  const size_t item_bytes = this->item_bytes();
  const QueueTaker<>& taker = takers_[slot];
  const size_t first = taker.BytesAt(0);
  if (short_items && first < item_bytes) {
    taker.Copy(0, out.data(), first);
    return {out.first(first), 1};
  }
  const size_t fit = out.size() < 2 * item_bytes ? 1 : out.size() / item_bytes;
  const size_t least = short_items ? item_bytes : 1;
  size_t count = 0;
  do {
    taker.Copy(count, out.data() + count * item_bytes, item_bytes);
    ++count;
  } while (count < fit && taker.BytesAt(count) >= least);
  return {out.first(count * item_bytes), count};
}

QueueItem QueueGetter::ItemAt(size_t slot, const Copied& copied,
                              size_t i) const {
  const size_t bytes = std::min(item_bytes(), copied.bytes.size());
  return {copied.bytes.subspan(i * bytes, bytes), slot,
          takers_[slot].position() + i};
}

// Claims the copied items, one after the other; `claimed` is their number. An
// error is about the next one.
absl::Status QueueGetter::ClaimAll(size_t slot, const Copied& copied,
                                   QueueClaimer* claimer, size_t* claimed) {
  for (*claimed = 0; *claimed < copied.count; ++*claimed) {
    TENON_RETURN_IF_ERROR(claimer->Claim(ItemAt(slot, copied, *claimed)));
    TENON_CRASH_POINT("queue.item_claimed");
  }
  return absl::OkStatus();
}

void QueueGetter::UndoAll(size_t slot, const Copied& copied,
                          QueueClaimer* claimer) {
  for (size_t i = copied.count; i > 0; --i) {
    claimer->Undo(ItemAt(slot, copied, i - 1));
  }
}

// The number of copied items that are claimed and may be taken; 0: retry.
absl::StatusOr<size_t> QueueGetter::ClaimCopied(size_t slot,
                                                const Copied& copied,
                                                QueueClaimer* claimer) {
  // Otherwise the copy may be torn.
  if (!takers_[slot].StillThere()) return 0;
  size_t claimed = 0;
  absl::Status failed = ClaimAll(slot, copied, claimer, &claimed);
  // Returns the good items first, and the error at the next call.
  if (failed.ok() || claimed != 0) return claimed;
  if (!takers_[slot].StillThere()) return 0;
  if (absl::IsDataLoss(failed) && !TakeAndRing(takers_[slot], slot, 1))
    return 0;
  return failed;
}

absl::StatusOr<size_t> QueueGetter::TakeFromRing(size_t slot,
                                                 std::span<std::byte> out,
                                                 QueueClaimer* claimer) {
  QueueTaker<>& taker = takers_[slot];
  for (;;) {
    if (!taker.Refresh()) return context_.CorruptWords(slot);
    if (!taker.has_item()) return 0;
    Copied copied = CopySome(slot, out, /*short_items=*/claimer != nullptr);
    TENON_CRASH_POINT("queue.copied");
    if (claimer != nullptr) {
      TENON_ASSIGN_OR_RETURN(copied.count, ClaimCopied(slot, copied, claimer));
      if (copied.count == 0) continue;
    }
    if (TakeAndRing(taker, slot, copied.count)) return copied.count;
    if (claimer != nullptr) UndoAll(slot, copied, claimer);
  }
}

absl::StatusOr<size_t> QueueGetter::TakeSome(std::span<std::byte> out,
                                             QueueClaimer* claimer) {
  const size_t used = endpoint_.used();
  if (next_ >= used) next_ = 0;
  for (size_t i = 0; i < used; ++i) {
    const size_t slot = next_;
    next_ = next_ + 1 < used ? next_ + 1 : 0;
    if (Skips(slot)) continue;
    TENON_ASSIGN_OR_RETURN(const size_t took, TakeFromRing(slot, out, claimer));
    if (took != 0) return took;
  }
  return 0;
}

absl::StatusOr<size_t> QueueGetter::TryGet(std::span<std::byte> out,
                                           QueueClaimer* claimer) {
  TENON_RETURN_IF_ERROR(context_.CheckUsable());
  if (out.size() < item_bytes()) return TooSmall(out);
  const TimedMutexLock lock(&endpoint_.mutex(), Deadline::Passed());
  if (!lock.held()) return 0;
  TENON_RETURN_IF_ERROR(endpoint_.Sync());
  return TakeSome(out, claimer);
}

absl::StatusOr<size_t> QueueGetter::Get(std::span<std::byte> out,
                                        Deadline deadline,
                                        QueueClaimer* claimer) {
  TENON_RETURN_IF_ERROR(context_.CheckUsable());
  if (out.size() < item_bytes()) return TooSmall(out);
  const TimedMutexLock lock(&endpoint_.mutex(), deadline);
  if (!lock.held()) return context_.LockTimedOut("getting");
  TENON_ASSIGN_OR_RETURN(const size_t took, TakeSomeOrEnd(out, claimer));
  if (took != 0) [[likely]]
    return took;
  absl::StatusOr<size_t> waited = WaitAndTake(out, deadline, claimer);
  endpoint_.NoteWaited(
      context_.memory.at(context_.membership.slot()).get_waits);
  return waited;
}

absl::StatusOr<size_t> QueueGetter::TakeSomeOrEnd(std::span<std::byte> out,
                                                  QueueClaimer* claimer) {
  // In this order: items put before the queue was closed, or before a
  // participant left or died (which Sync() and Wait() notice), are in the rings
  // when these are read.
  TENON_RETURN_IF_ERROR(endpoint_.Sync());
  const bool no_more = context_.closed();
  TENON_ASSIGN_OR_RETURN(const size_t took, TakeSome(out, claimer));
  if (took != 0) return took;
  if (no_more) {
    return absl::OutOfRangeError(
        absl::StrCat("Get(): ", context_.what, " is closed and empty"));
  }
  if (const std::string why = endpoint_.WhyAlone(); !why.empty()) {
    // Another one may have joined, put items and left since they were read.
    TENON_ASSIGN_OR_RETURN(const size_t last, TakeSome(out, claimer));
    if (last != 0) return last;
    return absl::UnavailableError(
        absl::StrCat("Get(): ", context_.what, " is empty, and ", why));
  }
  return 0;
}

absl::StatusOr<size_t> QueueGetter::WaitAndTake(std::span<std::byte> out,
                                                Deadline deadline,
                                                QueueClaimer* claimer) {
  const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex()) {
    return HasReasonToWake();
  };
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const bool go_on, endpoint_.Wait(ready, deadline));
    if (!go_on) {
      return absl::DeadlineExceededError(
          absl::StrCat("Get(): ", context_.what,
                       " is empty: no item was put before the deadline"));
    }
    TENON_ASSIGN_OR_RETURN(const size_t took, TakeSomeOrEnd(out, claimer));
    if (took != 0) return took;
  }
}

absl::StatusOr<uint64_t> QueueGetter::Drain() {
  TENON_RETURN_IF_ERROR(context_.CheckUsable());
  if (context_.Is(QueueType::kTasks)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "Drain(): ", context_.what, " has tasks, which cannot be discarded"));
  }
  uint64_t all = 0;
  for (size_t slot = 0; slot < context_.members.used(); ++slot) {
    QueueTaker<> taker = context_.memory.MakeTaker(slot);
    for (bool taken = false; !taken;) {
      if (!taker.Refresh()) return context_.CorruptWords(slot);
      uint64_t count = 0;
      while (taker.BytesAt(count) != 0) ++count;
      taken = count == 0 || taker.Take(count);
      if (taken) all += count;
    }
  }
  if (all != 0) context_.members.Announce();
  return all;
}

}  // namespace tenon
