// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The half of QueueGroup that reads the other slots.

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_group.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

using A = StdAtomics;

bool IsAsleep(const SharedWord<uint64_t>& sleeping) {
  return (A::Load(sleeping, std::memory_order_seq_cst) & 1) != 0;
}

}  // namespace

// Null if that participant has left.
absl::StatusOr<std::shared_ptr<const QueueMember>> QueueGroup::ReadMember(
    size_t slot, uint64_t generation) const {
  absl::StatusOr<PublishedFds> item = boards_[slot].Read();
  if (!item.ok()) {
    const absl::Status& why = item.status();
    if (absl::IsNotFound(why) || absl::IsDataLoss(why)) return nullptr;
    return why;
  }
  BoardHeader header;
  if (item->bytes.size() < sizeof(header) || item->fds.size() < kOwnFds) {
    return nullptr;
  }
  std::memcpy(&header, item->bytes.data(), sizeof(header));
  if (header.slot != slot || header.generation != generation) return nullptr;
  UniqueFd* const own = &item->fds[item->fds.size() - kOwnFds];
  auto process = PidFd::Adopt(std::move(own[0]));
  if (!process.ok()) return nullptr;
  QueueMember member = {slot, generation, *std::move(process), {}};
  for (size_t i = 0; i < kQueueWaits; ++i) {
    member.bells[i] = std::move(own[1 + i]);
  }
  return std::make_shared<const QueueMember>(std::move(member));
}

absl::Status QueueGroup::ReadMembers() {
  Members found;
  for (size_t slot = 0; slot < geometry_.participants; ++slot) {
    const uint64_t state = A::Load(at(slot).state, std::memory_order_seq_cst);
    if (QueueStateOf(state) != QueueParticipant::kReady) continue;
    std::shared_ptr<const QueueMember> member;
    for (const auto& old : members_) {
      if (old->slot == slot && old->generation == QueueGenerationOf(state)) {
        member = old;
      }
    }
    if (member == nullptr) {
      TENON_ASSIGN_OR_RETURN(member,
                             ReadMember(slot, QueueGenerationOf(state)));
    }
    if (member != nullptr) found.push_back(std::move(member));
  }
  members_ = std::move(found);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> QueueGroup::Refresh(Members* members) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t now = membership();
  if (now != known_) {
    TENON_RETURN_IF_ERROR(ReadMembers());
    known_ = now;
  }
  *members = members_;
  return known_;
}

absl::Status QueueGroup::ForceRefresh() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ReadMembers();
}

size_t QueueGroup::used() const {
  for (size_t slot = geometry_.participants; slot > 0; --slot) {
    if (A::Load(at(slot - 1).generation, std::memory_order_relaxed) != 0) {
      return slot;
    }
  }
  return 0;
}

bool QueueGroup::HadOthers() const {
  for (size_t slot = 0; slot < geometry_.participants; ++slot) {
    const uint64_t last =
        A::Load(at(slot).was_ready, std::memory_order_acquire);
    if (slot == own_ ? generation_ > 1 : last != 0) return true;
  }
  return false;
}

void QueueGroup::Announce() {
  Members members;
  if (!Refresh(&members).ok()) return WakeThroughBoards();
  for (const auto& member : members) {
    for (size_t i = 0; i < kQueueWaits; ++i) {
      if (IsAsleep(sleeping(member->slot, static_cast<QueueWait>(i)))) {
        RingQueueBell(member->bells[i].get());
      }
    }
  }
}

void QueueGroup::WakeThroughBoards() const {
  for (size_t slot = 0; slot < geometry_.participants; ++slot) {
    for (size_t i = 0; i < kQueueWaits; ++i) {
      if (!IsAsleep(sleeping(slot, static_cast<QueueWait>(i)))) continue;
      boards_[slot].Wake();
      break;
    }
  }
}

// Rings the bells of all threads of this participant: a wake does not say which
// one it is for, and only one thread receives it.
void QueueGroup::TakeWakes() const {
  boards_[own_].TakeWakes();
  for (const int bell : bells_) RingQueueBell(bell);
}

void RingQueueBell(int bell) {
  const uint64_t one = 1;
  // EAGAIN: it is full, and so readable.
  RetryOnEintr([&] { return write(bell, &one, sizeof(one)); });
  TENON_CRASH_POINT("queue.rung");
}

}  // namespace tenon
