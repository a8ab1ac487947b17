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
#include "tenon/ipc/queue/fd_shelf.h"
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
    QueueKind kind, const std::string& name) {
  TENON_RETURN_IF_ERROR(CheckQueueKind(kind));
  TENON_ASSIGN_OR_RETURN(kind.id, RandomId::New());
  SegmentOptions options;
  options.strategy = SharingStrategy::kFileDescriptor;
  options.name_prefix = absl::StrCat(kQueueLabel, name);
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         Segment::CreateSharedWritable(kind.bytes(), options));
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  std::vector<FdShelf> shelves;
  for (uint64_t i = 0; i < kind.participants; ++i) {
    TENON_ASSIGN_OR_RETURN(FdShelf shelf, FdShelf::Create());
    shelves.push_back(std::move(shelf));
  }
  auto group = absl::WrapUnique(new QueueGroup(
      kind, std::move(segment), std::move(mapping), std::move(shelves)));
  group->words().kind = kind;
  if (JoinSystemFence()) {
    group->words().fenced = 1;
    group->publication_ = Publication::kFenced;
  }
  return group;
}

absl::StatusOr<std::unique_ptr<QueueGroup>> QueueGroup::Open(
    QueueHandle& handle) {
  TENON_ASSIGN_OR_RETURN(const QueueKind kind,
                         ParseQueueHandle(handle.bytes, handle.fds.size()));
  TENON_ASSIGN_OR_RETURN(UniqueFd memory, Duplicate(handle.fds[0].get()));
  TENON_ASSIGN_OR_RETURN(
      Segment segment,
      Segment::Adopt(std::move(memory), SegmentKind::kSharedWritable));
  if (segment.size_bytes() < kind.bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the memory of a queue has ", segment.size_bytes(), " bytes, and ",
        kind.bytes(), " are needed for what it is to be"));
  }
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  QueueKind found;
  std::memcpy(static_cast<void*>(&found), mapping.data(), sizeof(found));
  if (found != kind) {
    return absl::InvalidArgumentError(
        "the memory that came with the handle of a queue is not that queue's");
  }
  auto group = absl::WrapUnique(
      new QueueGroup(kind, std::move(segment), std::move(mapping), {}));
  if (group->words().fenced == 1) {
    if (!JoinSystemFence()) {
      return absl::FailedPreconditionError(
          "this queue was made for processes that may call membarrier(), and "
          "this one may not (a seccomp filter?)");
    }
    group->publication_ = Publication::kFenced;
  }
  for (uint64_t i = 0; i < kind.participants; ++i) {
    auto shelf = FdShelf::Adopt(std::move(handle.fds[1 + 2 * i]),
                                std::move(handle.fds[2 + 2 * i]));
    if (!shelf.ok()) {
      group->GiveBack(handle);
      return shelf.status();
    }
    group->shelves_.push_back(*std::move(shelf));
  }
  return group;
}

void QueueGroup::GiveBack(QueueHandle& handle) {
  for (size_t i = 0; i < shelves_.size(); ++i) {
    auto [in, out] = shelves_[i].Release();
    handle.fds[1 + 2 * i] = std::move(in);
    handle.fds[2 + 2 * i] = std::move(out);
  }
  shelves_.clear();
}

absl::StatusOr<QueueHandle> QueueGroup::Share() const {
  QueueHandle handle;
  handle.bytes = QueueHandleBytes(kind_);
  TENON_ASSIGN_OR_RETURN(UniqueFd memory, Duplicate(segment_.fd()));
  handle.fds.push_back(std::move(memory));
  for (const FdShelf& shelf : shelves_) {
    for (const int fd : shelf.fds()) {
      TENON_ASSIGN_OR_RETURN(UniqueFd copy, Duplicate(fd));
      handle.fds.push_back(std::move(copy));
    }
  }
  return handle;
}

SharedWord<uint64_t>& QueueGroup::sleeping(size_t place, QueueWait wait) const {
  QueueParticipant& words = at(place);
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

// ---- One's own place ----

bool QueueGroup::IsEmpty(size_t place) const {
  return A::Load(at(place).head, std::memory_order_seq_cst) ==
         A::Load(at(place).take, std::memory_order_seq_cst);
}

bool QueueGroup::HasDied(size_t place, uint64_t generation) const {
  const auto member = MeetMember(place, generation);
  return member.ok() && *member != nullptr && (*member)->process.HasEnded();
}

// Whether its holder has left or died, and its ring is empty or may have items.
bool QueueGroup::MayTake(size_t place, bool with_items) const {
  if (!with_items && !IsEmpty(place)) return false;
  const uint64_t state = A::Load(at(place).state, std::memory_order_acquire);
  return QueueStateOf(state) != QueueParticipant::kReady ||
         HasDied(place, QueueGenerationOf(state));
}

bool QueueGroup::ClaimPlace(size_t place, bool with_items) {
  QueueParticipant& words = at(place);
  if (RobustWord::IsLocked(words.joiner) || !MayTake(place, with_items) ||
      !RobustWord::TryLock(words.joiner)) {
    return false;
  }
  TENON_CRASH_POINT("queue.place_claimed");
  if (!MayTake(place, with_items)) {
    // Another process has joined here in between.
    RobustWord::Unlock(words.joiner);
    return false;
  }
  // If this process is killed before it is ready, the shelf does not say any
  // more that the former holder has died.
  A::Store(words.state,
           StateWord(A::Load(words.generation, std::memory_order_relaxed),
                     QueueParticipant::kLeft),
           std::memory_order_release);
  own_ = place;
  first_ = A::Load(words.head, std::memory_order_acquire);
  TENON_CRASH_POINT("queue.place_vacated");
  return true;
}

absl::StatusOr<size_t> QueueGroup::Claim() {
  TENON_ASSIGN_OR_RETURN(process_, PidFd::Open(getpid()));
  const bool is_pipe = kind_.type == static_cast<uint32_t>(QueueType::kPipe);
  for (const bool with_items : {false, true}) {
    if (with_items && is_pipe) break;
    for (size_t place = 0; place < kind_.participants; ++place) {
      if (ClaimPlace(place, with_items)) return place;
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "joining a queue: all ", kind_.participants,
      " slots have living participants", is_pipe ? " or unread items" : "",
      "; raise max_participants of its options, or let one of them leave"));
}

void QueueGroup::Abandon() { RobustWord::Unlock(at(own_).joiner); }

absl::Status QueueGroup::Enrol(const std::array<int, kQueueWaits>& bells) {
  QueueParticipant& words = at(own_);
  ShelfItem kept;
  if (!IsEmpty(own_)) {
    uint64_t former = 0;
    auto item = TakeFrom(own_, &former);
    if (absl::IsResourceExhausted(item.status())) return item.status();
    if (item.ok()) kept = *std::move(item);
  }
  std::vector<int> kept_fds;
  for (const UniqueFd& fd : kept.fds) kept_fds.push_back(fd.get());
  bells_ = bells;
  generation_ = A::Load(words.generation, std::memory_order_relaxed) + 1;
  if (absl::Status laid = PutOnShelf(kept.bytes, kept_fds); !laid.ok()) {
    generation_ = 0;
    return laid;
  }
  TENON_CRASH_POINT("queue.shelf_laid");
  // What the holder before has begun and not done is lost with it. Both counts
  // stand still by now, so to do this twice is to do it once.
  A::Store(words.lost,
           A::Load(words.begun, std::memory_order_acquire) -
               A::Load(words.done, std::memory_order_acquire),
           std::memory_order_relaxed);
  A::Store(words.generation, generation_, std::memory_order_relaxed);
  A::Store(words.state, StateWord(generation_, QueueParticipant::kReady),
           std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.ready");
  A::Store(words.was_ready, generation_, std::memory_order_release);
  A::FetchAdd(this->words().roster, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.enrolled");
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
  A::FetchAdd(words().roster, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.leave_counted");
  Announce();
  // What is on the shelf stays there: for those who take what it has put.
  generation_ = 0;
}

// ---- Shelves ----

absl::Status QueueGroup::PutOnShelf(absl::string_view bytes,
                                    absl::Span<const int> fds) {
  const ShelfHeader header = {own_, generation_};
  std::string all(reinterpret_cast<const char*>(&header), sizeof(header));
  all.append(bytes.data(), bytes.size());
  // One's own come last: see FdShelf::Take().
  std::vector<int> all_fds(fds.begin(), fds.end());
  all_fds.push_back(process_->fd());
  all_fds.insert(all_fds.end(), bells_.begin(), bells_.end());
  return shelves_[own_].Put(all, all_fds);
}

absl::Status QueueGroup::LayOut(absl::string_view bytes,
                                absl::Span<const int> fds) {
  const uint64_t take = A::Load(at(own_).take, std::memory_order_acquire);
  if (static_cast<int64_t>(first_ - take) > 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        first_ - take, " items of the participant that had slot ", own_,
        " of a queue before this one are not taken yet, and need what it has "
        "put on the shelf; let them be taken first"));
  }
  return PutOnShelf(bytes, fds);
}

absl::StatusOr<ShelfItem> QueueGroup::TakeFrom(size_t place,
                                               uint64_t* generation) const {
  if (place >= shelves_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a queue has no place ", place));
  }
  absl::StatusOr<ShelfItem> item = shelves_[place].Take(kOwnFds);
  if (!item.ok()) return item;
  ShelfHeader header;
  if (item->bytes.size() < sizeof(header)) {
    return absl::DataLossError(
        absl::StrCat("on the shelf of place ", place,
                     " of a queue is nothing "
                     "that a participant has laid there"));
  }
  std::memcpy(&header, item->bytes.data(), sizeof(header));
  *generation = header.generation;
  item->bytes.erase(0, sizeof(header));
  return item;
}

}  // namespace tenon
