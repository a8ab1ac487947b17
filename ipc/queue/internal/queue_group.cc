// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_group.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/sync/internal/robust_word.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/system_fence.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {
namespace {

using A = StdAtomics;
using State = QueueParticipant::State;

constexpr char kWhat[] = "a queue";

absl::StatusOr<UniqueFd> Duplicate(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return PosixError(errno, "fcntl(F_DUPFD_CLOEXEC)", kWhat);
  return copy;
}

uint64_t StateWord(uint64_t generation, State state) {
  return generation << 2 | state;
}

}  // namespace

absl::StatusOr<std::unique_ptr<QueueGroup>> QueueGroup::Create(
    QueueGeometry geometry, const std::string& name) {
  TENON_RETURN_IF_ERROR(CheckQueueGeometry(geometry));
  TENON_ASSIGN_OR_RETURN(geometry.id, RandomId::New());
  SegmentOptions options;
  options.strategy = SharingStrategy::kFileDescriptor;
  options.name_prefix = absl::StrCat(kQueueLabel, name);
  TENON_ASSIGN_OR_RETURN(Segment segment, Segment::CreateSharedWritable(
                                              geometry.bytes(), options));
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  std::vector<FdBoard> boards;
  for (uint64_t i = 0; i < geometry.participants; ++i) {
    TENON_ASSIGN_OR_RETURN(FdBoard board, FdBoard::Create());
    boards.push_back(std::move(board));
  }
  auto group = absl::WrapUnique(new QueueGroup(
      geometry, std::move(segment), std::move(mapping), std::move(boards)));
  group->words().geometry = geometry;
  if (JoinSystemFence()) {
    group->words().fenced = 1;
    group->publication_ = Publication::kFenced;
  }
  return group;
}

absl::StatusOr<std::unique_ptr<QueueGroup>> QueueGroup::Open(
    QueueHandle& handle) {
  TENON_ASSIGN_OR_RETURN(const QueueGeometry geometry,
                         ParseQueueHandle(handle.bytes, handle.fds.size()));
  TENON_ASSIGN_OR_RETURN(UniqueFd memory, Duplicate(handle.fds[0].get()));
  TENON_ASSIGN_OR_RETURN(
      Segment segment,
      Segment::Adopt(std::move(memory), SegmentKind::kSharedWritable));
  if (segment.size_bytes() < geometry.bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Open(): the memory of a queue has ", segment.size_bytes(),
                     " bytes; its geometry needs ", geometry.bytes()));
  }
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  QueueGeometry found;
  std::memcpy(static_cast<void*>(&found), mapping.data(), sizeof(found));
  if (found != geometry) {
    return absl::InvalidArgumentError(
        "Open(): the memory in the handle belongs to another queue");
  }
  auto group = absl::WrapUnique(
      new QueueGroup(geometry, std::move(segment), std::move(mapping), {}));
  if (group->words().fenced == 1) {
    if (!JoinSystemFence()) {
      return absl::FailedPreconditionError(
          "Open(): the queue's participants call membarrier(), which this "
          "process may not (a seccomp filter?)");
    }
    group->publication_ = Publication::kFenced;
  }
  for (uint64_t i = 0; i < geometry.participants; ++i) {
    auto board = FdBoard::Adopt(std::move(handle.fds[1 + 2 * i]),
                                std::move(handle.fds[2 + 2 * i]));
    if (!board.ok()) {
      group->GiveBack(handle);
      return board.status();
    }
    group->boards_.push_back(*std::move(board));
  }
  return group;
}

void QueueGroup::GiveBack(QueueHandle& handle) {
  for (size_t i = 0; i < boards_.size(); ++i) {
    auto [in, out] = boards_[i].Release();
    handle.fds[1 + 2 * i] = std::move(in);
    handle.fds[2 + 2 * i] = std::move(out);
  }
  boards_.clear();
}

absl::StatusOr<QueueHandle> QueueGroup::Share() const {
  QueueHandle handle;
  handle.bytes = QueueHandleBytes(geometry_);
  TENON_ASSIGN_OR_RETURN(UniqueFd memory, Duplicate(segment_.fd()));
  handle.fds.push_back(std::move(memory));
  for (const FdBoard& board : boards_) {
    for (const int fd : board.fds()) {
      TENON_ASSIGN_OR_RETURN(UniqueFd copy, Duplicate(fd));
      handle.fds.push_back(std::move(copy));
    }
  }
  return handle;
}

SharedWord<uint64_t>& QueueGroup::sleeping(size_t slot, QueueWait wait) const {
  QueueParticipant& words = at(slot);
  switch (wait) {
    case QueueWait::kGet:
      return words.get_sleeping;
    case QueueWait::kPut:
      return words.put_sleeping;
    case QueueWait::kJoin:
      break;
  }
  return words.join_sleeping;
}

// ---- This participant's slot ----

bool QueueGroup::IsEmpty(size_t slot) const {
  return A::Load(at(slot).head, std::memory_order_seq_cst) ==
         A::Load(at(slot).take, std::memory_order_seq_cst);
}

absl::StatusOr<bool> QueueGroup::HasDied(size_t slot,
                                         uint64_t generation) const {
  TENON_ASSIGN_OR_RETURN(const auto member, ReadMember(slot, generation));
  return member != nullptr && member->process.HasEnded();
}

// Whether its holder has left or died, and its ring is empty or may have items.
// Errors: ReadMember()'s; the holder may be alive or dead then.
absl::StatusOr<bool> QueueGroup::MayTake(size_t slot, bool with_items) const {
  if (!with_items && !IsEmpty(slot)) return false;
  const uint64_t state = A::Load(at(slot).state, std::memory_order_acquire);
  if (QueueStateOf(state) != QueueParticipant::kReady) return true;
  return HasDied(slot, QueueGenerationOf(state));
}

absl::StatusOr<bool> QueueGroup::ClaimSlot(size_t slot, bool with_items) {
  QueueParticipant& words = at(slot);
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
  // From here on the board may have this process's pidfd: if this process is
  // killed before it is ready, the board no longer shows that the former holder
  // has died.
  A::Store(words.state,
           StateWord(A::Load(words.generation, std::memory_order_relaxed),
                     QueueParticipant::kLeft),
           std::memory_order_release);
  own_ = slot;
  first_ = A::Load(words.head, std::memory_order_acquire);
  TENON_CRASH_POINT("queue.slot_vacated");
  return true;
}

absl::StatusOr<size_t> QueueGroup::Claim() {
  TENON_ASSIGN_OR_RETURN(process_, PidFd::Open(getpid()));
  const bool is_pipe =
      geometry_.type == static_cast<uint32_t>(QueueType::kPipe);
  absl::Status unknown;  // Why a slot was skipped whose holder may be dead.
  for (const bool with_items : {false, true}) {
    if (with_items && is_pipe) break;
    for (size_t slot = 0; slot < geometry_.participants; ++slot) {
      const absl::StatusOr<bool> claimed = ClaimSlot(slot, with_items);
      if (claimed.ok() && *claimed) return slot;
      unknown.Update(claimed.status());
    }
  }
  TENON_RETURN_IF_ERROR(unknown);
  return absl::ResourceExhaustedError(absl::StrCat(
      "joining a queue: all ", geometry_.participants,
      " slots have living participants", is_pipe ? " or unread items" : "",
      "; raise max_participants of its options, or close one participant"));
}

void QueueGroup::Abandon() { RobustWord::Unlock(at(own_).joiner); }

absl::Status QueueGroup::Join(const std::array<int, kQueueWaits>& bells) {
  QueueParticipant& words = at(own_);
  PublishedFds kept;
  if (!IsEmpty(own_)) {
    uint64_t former = 0;
    auto item = ReadFds(own_, &former);
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
  A::FetchAdd(this->words().membership, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.join_counted");
  RobustWord::Unlock(words.joiner);
  TENON_CRASH_POINT("queue.joined");
  Announce();
  return absl::OkStatus();
}

void QueueGroup::Leave() {
  if (generation_ == 0) return;
  A::Store(at(own_).state, StateWord(generation_, QueueParticipant::kLeft),
           std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.left");
  A::FetchAdd(words().membership, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.leave_counted");
  Announce();
  // The published descriptors stay on the board, for the receivers of its
  // items.
  generation_ = 0;
}

// ---- Boards ----

absl::Status QueueGroup::PublishOnBoard(absl::string_view bytes,
                                        absl::Span<const int> fds) {
  const BoardHeader header = {own_, generation_};
  std::string all(reinterpret_cast<const char*>(&header), sizeof(header));
  all.append(bytes.data(), bytes.size());
  // Its own descriptors come last: see FdBoard::Read().
  std::vector<int> all_fds(fds.begin(), fds.end());
  all_fds.push_back(process_->fd());
  all_fds.insert(all_fds.end(), bells_.begin(), bells_.end());
  return boards_[own_].Publish(all, all_fds);
}

absl::Status QueueGroup::PublishFds(absl::string_view bytes,
                                    absl::Span<const int> fds) {
  const uint64_t take = A::Load(at(own_).take, std::memory_order_acquire);
  if (static_cast<int64_t>(first_ - take) > 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        first_ - take, " items of the former holder of slot ", own_,
        " of a queue are not taken yet and need its published descriptors; "
        "retry once they are taken"));
  }
  return PublishOnBoard(bytes, fds);
}

absl::StatusOr<PublishedFds> QueueGroup::ReadFds(size_t slot,
                                                 uint64_t* generation) const {
  if (slot >= boards_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a queue of ", boards_.size(), " slots has no slot ", slot));
  }
  absl::StatusOr<PublishedFds> item = boards_[slot].Read(kOwnFds);
  if (!item.ok()) return item;
  BoardHeader header;
  if (item->bytes.size() < sizeof(header)) {
    return absl::DataLossError(
        absl::StrCat("malformed message on the board of slot ", slot,
                     " of a queue: no participant published it"));
  }
  std::memcpy(&header, item->bytes.data(), sizeof(header));
  *generation = header.generation;
  item->bytes.erase(0, sizeof(header));
  return item;
}

}  // namespace tenon
