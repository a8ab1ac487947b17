// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_endpoint.h"

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_members.h"
#include "tenon/ipc/queue/internal/queue_membership.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {
namespace {

// A waiter that knows of no living peer reads the slots again after this time:
// it then sees a participant that was killed before it announced itself.
constexpr absl::Duration kRecheckForOthers = absl::Milliseconds(100);

// The board's id among the members for which a bell waits: never a member's id.
constexpr uint64_t kBoard = ~uint64_t{0};

}  // namespace

absl::StatusOr<int> QueueEndpoint::MakeBell(QueueWait waits) {
  const QueueMembership& own = context_.membership;
  TENON_ASSIGN_OR_RETURN(
      std::unique_ptr<Doorbell> bell,
      Doorbell::Create(&context_.memory.sleeping(own.slot(), waits),
                       context_.what));
  TENON_RETURN_IF_ERROR(bell->AddParticipant(kBoard, own.wake_fd()));
  const int fd = bell->bell_fd();
  bell_ = std::move(bell);
  return fd;
}

absl::Status QueueEndpoint::SyncNow() {
  QueueMembers::List members;
  TENON_ASSIGN_OR_RETURN(const uint64_t membership,
                         context_.members.Refresh(&members));
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
  others_.reserve(members.size());
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
    const auto* sleeping = &context_.memory.sleeping(member->slot, rung_);
    const size_t slot = member->slot;
    others_.push_back({std::move(member), slot, sleeping, {}, false});
  }
  used_ = context_.members.used();
  membership_ = membership;
  return absl::OkStatus();
}

void QueueEndpoint::RingNow(const Other& other) {
  rings_.store(rings() + 1, std::memory_order_relaxed);
  RingQueueBell(other.member->bells[static_cast<size_t>(rung_)].get());
}

absl::StatusOr<bool> QueueEndpoint::Wait(absl::FunctionRef<bool()> ready,
                                         Deadline deadline) {
  const Deadline until =
      KnowsLiving() ? deadline
                    : Earlier(deadline, Deadline::After(kRecheckForOthers));
  const auto is_over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !IsInSync() || ready();
  };
  const uint64_t asleep_before = bell_->counts().asleep_ns;
  TENON_ASSIGN_OR_RETURN(const WaitOutcome outcome,
                         bell_->Wait(is_over, until));
  asleep_ns_ += bell_->counts().asleep_ns - asleep_before;
  sleeps_.store(bell_->counts().sleeps, std::memory_order_relaxed);
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
    context_.membership.TakeWakes();
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

std::string QueueEndpoint::WhyAlone() {
  if (context_.memory.geometry().waits_alone != 0 || KnowsLiving()) return "";
  if (!context_.membership.HadOthers()) {
    std::string ended = context_.guests->DescribeEnd();
    // In this order: a guest that had opened the queue was a participant before
    // it ended, and has items in it.
    return ended.empty() || context_.membership.HadOthers() ? "" : ended;
  }
  // In this order: a guest that opens the queue from now on is a member, or has
  // left.
  if (AwaitsGuest()) return "";
  const bool alone =
      context_.members.ForceRefresh().ok() && SyncNow().ok() && !KnowsLiving();
  return alone ? "all others have left or died" : "";
}

bool QueueEndpoint::AwaitsGuest() {
  const uint64_t joins = context_.membership.JoinsSinceItsOwn();
  if (!context_.guests->MayCome(joins)) return false;
  for (const pid_t pid : context_.members.LastHolders()) {
    context_.guests->Remove(pid);
  }
  return context_.guests->MayCome(joins);
}

bool QueueEndpoint::Lives(size_t slot) const {
  return std::any_of(others_.begin(), others_.end(),
                     [slot](const Other& other) {
                       return other.member->slot == slot && !other.dead;
                     });
}

absl::Status QueueEndpoint::InUse(absl::string_view call) const {
  return absl::FailedPreconditionError(absl::StrCat(
      call, ": another thread of this process is ",
      rung_ == QueueWait::kGet ? "putting into " : "getting from ",
      context_.what,
      "; an event loop must be the only one; wait for the thread to return, "
      "or open the queue once more"));
}

absl::StatusOr<int> QueueEndpoint::PollFd() {
  TENON_RETURN_IF_ERROR(context_.CheckUsable());
  const TimedMutexLock lock(&mutex_, Deadline::Passed());
  if (!lock.held()) return InUse("PollFd()");
  TENON_RETURN_IF_ERROR(Sync());
  return bell_->PollFd();
}

absl::StatusOr<bool> QueueEndpoint::Arm(absl::FunctionRef<bool()> ready) {
  TENON_RETURN_IF_ERROR(context_.CheckUsable());
  const TimedMutexLock lock(&mutex_, Deadline::Passed());
  if (!lock.held()) return InUse("Arm()");
  TENON_RETURN_IF_ERROR(Sync());
  const auto is_over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !IsInSync() || ready();
  };
  return bell_->Arm(is_over);
}

void QueueEndpoint::Disarm() {
  if (!context_.CheckUsable().ok()) return;
  const TimedMutexLock lock(&mutex_, Deadline::Passed());
  if (lock.held()) bell_->Disarm();
}

}  // namespace tenon
