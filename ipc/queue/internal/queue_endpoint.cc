// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_endpoint.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/queue/internal/queue_group.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

// A waiter that knows of no living peer reads the slots again after this time:
// it then sees a participant that was killed before it announced itself.
constexpr absl::Duration kRecheckForOthers = absl::Milliseconds(100);

// The board's id among the members for which a bell waits: never a member's id.
constexpr uint64_t kBoard = ~uint64_t{0};

}  // namespace

absl::Status QueueEndpoint::MakeBell(QueueWait waits, const std::string& what) {
  TENON_ASSIGN_OR_RETURN(
      bell_, Doorbell::Create(&group_->sleeping(group_->own(), waits), what));
  return bell_->AddParticipant(kBoard, group_->wake_fd());
}

absl::Status QueueEndpoint::SyncNow() {
  QueueGroup::Members members;
  TENON_ASSIGN_OR_RETURN(const uint64_t membership, group_->Refresh(&members));
  const auto is_in = [](const auto& list, uint64_t id) {
    return std::any_of(list.begin(), list.end(),
                       [id](const auto& m) { return m->id() == id; });
  };
  std::vector<Other> kept;
  for (Other& other : others_) {
    if (is_in(members, other.member->id())) {
      kept.push_back(std::move(other));
    } else if (bell_ != nullptr) {
      bell_->RemoveParticipant(other.member->id());
    }
  }
  others_ = std::move(kept);
  for (auto& member : members) {
    const uint64_t id = member->id();
    if (std::any_of(others_.begin(), others_.end(), [id](const Other& other) {
          return other.member->id() == id;
        })) {
      continue;
    }
    if (bell_ != nullptr && !IsSelf(*member)) {
      TENON_RETURN_IF_ERROR(bell_->AddParticipant(id, member->process.fd()));
    }
    others_.push_back({std::move(member), {}, false});
  }
  used_ = group_->used();
  membership_ = membership;
  return absl::OkStatus();
}

void QueueEndpoint::Ring(Other& other) {
  const QueueMember& member = *other.member;
  if (!other.ringer.MustRing(group_->sleeping(member.slot, rings_))) return;
  ++rung_;
  RingQueueBell(member.bells[static_cast<size_t>(rings_)].get());
}

void QueueEndpoint::RingAll() {
  // A compiler barrier only: a fence from outside then orders the publication
  // before the load of the membership.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // A participant that has joined meanwhile and sleeps has not seen the
  // publication.
  if (!Sync().ok()) group_->WakeThroughBoards();
  for (Other& other : others_) Ring(other);
}

void QueueEndpoint::RingHolder(size_t slot) {
  if (!Sync().ok()) group_->WakeThroughBoards();
  for (Other& other : others_) {
    if (other.member->slot == slot) Ring(other);
  }
}

absl::StatusOr<bool> QueueEndpoint::Wait(absl::FunctionRef<bool()> ready,
                                         Deadline deadline) {
  const Deadline until =
      KnowsLiving() ? deadline
                    : Earlier(deadline, Deadline::After(kRecheckForOthers));
  TENON_ASSIGN_OR_RETURN(
      const WaitOutcome outcome,
      bell_->Wait([&] { return !IsInSync() || ready(); }, until));
  switch (outcome.kind) {
    case WaitOutcome::kReady:
      return true;
    case WaitOutcome::kDeadline:
      return !deadline.has_passed();
    case WaitOutcome::kDied:
      break;
  }
  if (outcome.participant == kBoard) {
    bell_->ClearDead(kBoard);
    group_->TakeWakes();
    return true;
  }
  bell_->RemoveParticipant(outcome.participant);
  for (Other& other : others_) {
    if (other.member->id() == outcome.participant) other.dead = true;
  }
  TENON_CRASH_POINT("queue.death_noted");
  return true;
}

bool QueueEndpoint::KnowsLiving() const {
  return std::any_of(others_.begin(), others_.end(),
                     [this](const Other& other) {
                       return !other.dead && !IsSelf(*other.member);
                     });
}

bool QueueEndpoint::IsAlone() {
  if (group_->geometry().waits_alone != 0) return false;
  if (KnowsLiving() || !group_->HadOthers()) return false;
  return group_->ForceRefresh().ok() && SyncNow().ok() && !KnowsLiving();
}

bool QueueEndpoint::Lives(size_t slot) const {
  return std::any_of(others_.begin(), others_.end(),
                     [slot](const Other& other) {
                       return other.member->slot == slot && !other.dead;
                     });
}

}  // namespace tenon
