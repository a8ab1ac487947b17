// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_members.h"

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_memory.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_identity.h"

namespace tenon {
namespace {

using A = StdAtomics;

bool IsAsleep(const SharedWord<uint64_t>& sleeping) {
  return (A::Load(sleeping, std::memory_order_seq_cst) & 1) != 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const QueueMember>> QueueMembers::Read(
    size_t slot, uint64_t generation) const {
  absl::StatusOr<Message> item = memory_.board(slot).Read();
  if (!item.ok()) {
    const absl::Status& why = item.status();
    if (absl::IsNotFound(why) || absl::IsDataLoss(why)) return nullptr;
    return why;
  }
  QueueBoardHeader header;
  if (item->bytes.size() < sizeof(header) ||
      item->fds.size() < kQueueMemberFds) {
    return nullptr;
  }
  std::memcpy(&header, item->bytes.data(), sizeof(header));
  if (header.slot != slot || header.generation != generation) return nullptr;
  UniqueFd* const own = &item->fds[item->fds.size() - kQueueMemberFds];
  auto process = PidFd::Adopt(std::move(own[0]));
  if (!process.ok()) return nullptr;
  QueueMember member = {slot, generation, *std::move(process), {}};
  for (size_t i = 0; i < kQueueWaits; ++i) {
    member.bells[i] = std::move(own[1 + i]);
  }
  return std::make_shared<const QueueMember>(std::move(member));
}

absl::Status QueueMembers::ReadAll() {
  List found;
  for (size_t slot = 0; slot < memory_.geometry().participants; ++slot) {
    const uint64_t state =
        A::Load(memory_.at(slot).state, std::memory_order_seq_cst);
    if (QueueStateOf(state) != QueueParticipant::kReady) continue;
    std::shared_ptr<const QueueMember> member;
    for (const auto& old : members_) {
      if (old->slot == slot && old->generation == QueueGenerationOf(state)) {
        member = old;
      }
    }
    if (member == nullptr) {
      TENON_ASSIGN_OR_RETURN(member, Read(slot, QueueGenerationOf(state)));
    }
    if (member != nullptr) found.push_back(std::move(member));
  }
  members_ = std::move(found);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> QueueMembers::Refresh(List* members) {
  const ThreadLock lock(&mutex_);
  const uint64_t now = memory_.membership();
  if (now != known_) {
    TENON_RETURN_IF_ERROR(ReadAll());
    known_ = now;
  }
  *members = members_;
  return known_;
}

absl::Status QueueMembers::ForceRefresh() {
  const ThreadLock lock(&mutex_);
  return ReadAll();
}

std::vector<pid_t> QueueMembers::LastHolders() const {
  std::vector<pid_t> pids;
  for (size_t slot = 0; slot < used(); ++slot) {
    const auto member = Read(
        slot, A::Load(memory_.at(slot).was_ready, std::memory_order_acquire));
    if (!member.ok() || *member == nullptr) continue;
    const pid_t pid = PidOf((*member)->process).value_or(0);
    if (pid != 0) pids.push_back(pid);
  }
  return pids;
}

size_t QueueMembers::used() const {
  for (size_t slot = memory_.geometry().participants; slot > 0; --slot) {
    if (A::Load(memory_.at(slot - 1).generation, std::memory_order_relaxed) !=
        0) {
      return slot;
    }
  }
  return 0;
}

absl::StatusOr<Message> QueueMembers::ReadFds(size_t slot) const {
  if (slot >= memory_.geometry().participants) {
    return absl::InvalidArgumentError(
        absl::StrCat("a queue of ", memory_.geometry().participants,
                     " slots has no slot ", slot));
  }
  absl::StatusOr<Message> item = memory_.board(slot).Read(kQueueMemberFds);
  if (!item.ok()) return item;
  if (item->bytes.size() < sizeof(QueueBoardHeader)) {
    return absl::DataLossError(
        absl::StrCat("malformed message on the board of slot ", slot,
                     " of a queue: no participant published it"));
  }
  item->bytes.erase(0, sizeof(QueueBoardHeader));
  return item;
}

void QueueMembers::Announce() {
  List members;
  if (!Refresh(&members).ok()) return WakeThroughBoards();
  for (const auto& member : members) {
    for (size_t i = 0; i < kQueueWaits; ++i) {
      if (IsAsleep(memory_.sleeping(member->slot, static_cast<QueueWait>(i)))) {
        RingQueueBell(member->bells[i].get());
      }
    }
  }
}

void QueueMembers::WakeThroughBoards() const {
  for (size_t slot = 0; slot < memory_.geometry().participants; ++slot) {
    for (size_t i = 0; i < kQueueWaits; ++i) {
      if (IsAsleep(memory_.sleeping(slot, static_cast<QueueWait>(i)))) {
        memory_.board(slot).Wake();
        break;
      }
    }
  }
}

void RingQueueBell(int bell) {
  const uint64_t one = 1;
  // EAGAIN: it is full, and so readable.
  RetryOnEintr([&] { return write(bell, &one, sizeof(one)); });
  TENON_CRASH_POINT("queue.rung");
}

}  // namespace tenon
