// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_membership.h"

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_members.h"
#include "tenon/ipc/queue/internal/queue_memory.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/sync/internal/robust_word.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {
namespace {

using A = StdAtomics;
using State = QueueParticipant::State;

uint64_t StateWord(uint64_t generation, State state) {
  return generation << 2 | state;
}

}  // namespace

absl::StatusOr<bool> QueueMembership::HasDied(size_t slot,
                                              uint64_t generation) const {
  TENON_ASSIGN_OR_RETURN(const auto member, members_.Read(slot, generation));
  return member != nullptr && member->process.HasEnded();
}

// Whether its holder has left or died, and its ring is empty or may have items.
// Errors: QueueMembers::Read()'s; the holder may be alive or dead then.
absl::StatusOr<bool> QueueMembership::MayTake(size_t slot,
                                              bool with_items) const {
  if (!with_items && !memory_.IsEmpty(slot)) return false;
  const uint64_t state =
      A::Load(memory_.at(slot).state, std::memory_order_acquire);
  if (QueueStateOf(state) != QueueParticipant::kReady) return true;
  return HasDied(slot, QueueGenerationOf(state));
}

absl::StatusOr<bool> QueueMembership::ClaimSlot(size_t slot, bool with_items) {
  QueueParticipant& words = memory_.at(slot);
  if (RobustWord::IsLocked(words.joiner)) return false;
  TENON_ASSIGN_OR_RETURN(const bool may_take, MayTake(slot, with_items));
  if (!may_take || !RobustWord::TryLock(words.joiner)) return false;
  TENON_CRASH_POINT("queue.slot_claimed");
  const absl::StatusOr<bool> still = MayTake(slot, with_items);
  if (!still.ok() || !*still) {
    // Another process has joined here in between, or may have.
    RobustWord::Unlock(words.joiner);
    return still;
  }
  // A holder that has left has no call in progress.
  if (QueueStateOf(A::Load(words.state, std::memory_order_acquire)) ==
      QueueParticipant::kReady) {
    memory_.RecoverRing(slot);
  }
  // From here on the board may have this process's pidfd: if this process is
  // killed before it is ready, the board no longer shows that the former holder
  // has died.
  A::Store(words.state,
           StateWord(A::Load(words.generation, std::memory_order_relaxed),
                     QueueParticipant::kLeft),
           std::memory_order_release);
  slot_ = slot;
  first_ = A::Load(words.head, std::memory_order_acquire);
  TENON_CRASH_POINT("queue.slot_vacated");
  return true;
}

absl::Status QueueMembership::Claim() {
  TENON_ASSIGN_OR_RETURN(process_, PidFd::Open(getpid()));
  const bool is_pipe =
      memory_.geometry().type == static_cast<uint32_t>(QueueType::kPipe);
  absl::Status unknown;  // Why a slot was skipped whose holder may be dead.
  for (const bool with_items : {false, true}) {
    if (with_items && is_pipe) break;
    for (size_t slot = 0; slot < memory_.geometry().participants; ++slot) {
      const absl::StatusOr<bool> claimed = ClaimSlot(slot, with_items);
      if (claimed.ok() && *claimed) return absl::OkStatus();
      unknown.Update(claimed.status());
    }
  }
  TENON_RETURN_IF_ERROR(unknown);
  return absl::ResourceExhaustedError(absl::StrCat(
      "joining a queue: all ", memory_.geometry().participants,
      " slots have living participants", is_pipe ? " or unread items" : "",
      "; raise max_participants of its options, or close one participant"));
}

void QueueMembership::Abandon() {
  RobustWord::Unlock(memory_.at(slot_).joiner);
}

absl::Status QueueMembership::Join(const std::array<int, kQueueWaits>& bells) {
  QueueParticipant& words = memory_.at(slot_);
  Message kept;
  if (!memory_.IsEmpty(slot_)) {
    auto item = members_.ReadFds(slot_);
    if (absl::IsResourceExhausted(item.status())) return item.status();
    if (item.ok()) kept = *std::move(item);
  }
  std::vector<int> kept_fds;
  for (const UniqueFd& fd : kept.fds) kept_fds.push_back(fd.get());
  bells_ = bells;
  generation_ = A::Load(words.generation, std::memory_order_relaxed) + 1;
  if (absl::Status published = PublishOnBoard(kept.bytes, kept_fds);
      !published.ok()) {
    generation_ = 0;
    return published;
  }
  TENON_CRASH_POINT("queue.fds_published");
  // Tasks that the former holder has begun and not done are lost with it.
  // Neither count changes any more, so this step may be repeated.
  A::Store(words.lost,
           A::Load(words.begun, std::memory_order_acquire) -
               A::Load(words.done, std::memory_order_acquire),
           std::memory_order_relaxed);
  A::Store(words.generation, generation_, std::memory_order_relaxed);
  A::Store(words.state, StateWord(generation_, QueueParticipant::kReady),
           std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.ready");
  A::Store(words.was_ready, generation_, std::memory_order_release);
  A::FetchAdd(memory_.words().membership, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.join_counted");
  joins_at_own_ = Joins();
  RobustWord::Unlock(words.joiner);
  TENON_CRASH_POINT("queue.joined");
  members_.Announce();
  return absl::OkStatus();
}

void QueueMembership::Leave() {
  if (generation_ == 0) return;
  A::Store(memory_.at(slot_).state,
           StateWord(generation_, QueueParticipant::kLeft),
           std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.left");
  A::FetchAdd(memory_.words().membership, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.leave_counted");
  members_.Announce();
  // The published descriptors stay on the board, for the receivers of its
  // items.
  generation_ = 0;
}

bool QueueMembership::HadOthers() const {
  for (size_t slot = 0; slot < memory_.geometry().participants; ++slot) {
    const uint64_t last =
        A::Load(memory_.at(slot).was_ready, std::memory_order_acquire);
    if (slot == slot_ ? generation_ > 1 : last != 0) return true;
  }
  return false;
}

uint64_t QueueMembership::Joins() const {
  uint64_t joins = 0;
  for (size_t slot = 0; slot < memory_.geometry().participants; ++slot) {
    joins += A::Load(memory_.at(slot).was_ready, std::memory_order_acquire);
  }
  return joins;
}

// ---- Boards ----

absl::Status QueueMembership::PublishOnBoard(absl::string_view bytes,
                                             absl::Span<const int> fds) {
  const QueueBoardHeader header = {slot_, generation_};
  std::string all(reinterpret_cast<const char*>(&header), sizeof(header));
  all.append(bytes.data(), bytes.size());
  // Its own descriptors come last: see FdBoard::Read().
  std::vector<int> all_fds(fds.begin(), fds.end());
  all_fds.push_back(process_->fd());
  all_fds.insert(all_fds.end(), bells_.begin(), bells_.end());
  return memory_.board(slot_).Publish(all, all_fds);
}

absl::Status QueueMembership::PublishFds(absl::string_view bytes,
                                         absl::Span<const int> fds) {
  const uint64_t take =
      A::Load(memory_.at(slot_).take, std::memory_order_acquire);
  if (static_cast<int64_t>(first_ - take) > 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        first_ - take, " items of the former holder of slot ", slot_,
        " of a queue are not taken yet and need its published descriptors; "
        "retry once they are taken"));
  }
  return PublishOnBoard(bytes, fds);
}

// Rings the bells of all threads of this participant: a wake does not say which
// one it is for, and only one thread receives it.
void QueueMembership::TakeWakes() const {
  memory_.board(slot_).TakeWakes();
  for (const int bell : bells_) RingQueueBell(bell);
}

}  // namespace tenon
