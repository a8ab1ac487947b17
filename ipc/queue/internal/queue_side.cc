// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_side.h"

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

// Who knows nobody looks again after this: one that came and was killed before
// it could say so is seen then.
constexpr absl::Duration kLookForOthers = absl::Milliseconds(100);

// Of the shelf, among the members that a bell waits for: no member's id.
constexpr uint64_t kShelf = ~uint64_t{0};

}  // namespace

absl::Status QueueSide::MakeBell(QueueWait waits, const std::string& what) {
  TENON_ASSIGN_OR_RETURN(
      bell_, Doorbell::Create(&group_->sleeping(group_->own(), waits), what));
  return bell_->AddParticipant(kShelf, group_->wake_fd());
}

absl::Status QueueSide::SyncNow() {
  QueueGroup::Members members;
  TENON_ASSIGN_OR_RETURN(const uint64_t roster, group_->Refresh(&members));
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
  roster_ = roster;
  return absl::OkStatus();
}

void QueueSide::Ring(Other& other) {
  const QueueMember& member = *other.member;
  if (!other.ringer.MustRing(group_->sleeping(member.place, rings_))) return;
  ++rung_;
  RingQueueBell(member.bells[static_cast<size_t>(rings_)].get());
}

void QueueSide::RingAll() {
  // No instruction: a fence from outside finds the publication before the load
  // of who has come.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // One who came meanwhile and sleeps saw nothing of what was published.
  if (!Sync().ok()) group_->WakeThroughShelves();
  for (Other& other : others_) Ring(other);
}

void QueueSide::RingPlace(size_t place) {
  if (!Sync().ok()) group_->WakeThroughShelves();
  for (Other& other : others_) {
    if (other.member->place == place) Ring(other);
  }
}

absl::StatusOr<bool> QueueSide::Wait(absl::FunctionRef<bool()> ready,
                                     Deadline deadline) {
  const Deadline until =
      KnowsLiving() ? deadline
                    : Earlier(deadline, Deadline::After(kLookForOthers));
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
  if (outcome.participant == kShelf) {
    bell_->ClearDead(kShelf);
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

bool QueueSide::KnowsLiving() const {
  return std::any_of(others_.begin(), others_.end(),
                     [this](const Other& other) {
                       return !other.dead && !IsSelf(*other.member);
                     });
}

bool QueueSide::IsAlone() {
  if (group_->kind().waits_alone != 0) return false;
  if (KnowsLiving() || !group_->HadOthers()) return false;
  return group_->LookAgain().ok() && SyncNow().ok() && !KnowsLiving();
}

bool QueueSide::Lives(size_t place) const {
  return std::any_of(others_.begin(), others_.end(),
                     [place](const Other& other) {
                       return other.member->place == place && !other.dead;
                     });
}

}  // namespace tenon
