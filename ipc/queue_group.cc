// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue_group.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
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
#include "tenon/ipc/fd_shelf.h"
#include "tenon/ipc/queue_handle.h"
#include "tenon/ipc/queue_layout.h"
#include "tenon/shm/atomics.h"
#include "tenon/shm/crash_point.h"
#include "tenon/shm/ledger/random_id.h"
#include "tenon/shm/mapping.h"
#include "tenon/shm/pid_fd.h"
#include "tenon/shm/posix_error.h"
#include "tenon/shm/retry_on_eintr.h"
#include "tenon/shm/segment.h"
#include "tenon/shm/segment_options.h"
#include "tenon/shm/sharing_strategy.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/system_fence.h"
#include "tenon/shm/unique_fd.h"

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

// Who is joining: its pid namespace, 0 if that is not known, and its number
// there, which mean something only together.
constexpr int kPidBits = 30;

uint64_t JoiningWord() {
  struct stat of_namespace = {};
  uint64_t space = 0;
  if (stat("/proc/self/ns/pid", &of_namespace) == 0) {
    space = static_cast<uint32_t>(of_namespace.st_ino);
  }
  const auto pid = static_cast<uint64_t>(getpid());
  return (space << kPidBits | pid) << 2 | QueueParticipant::kJoining;
}

// Whether the process of a JoiningWord() has certainly ended.
bool JoinerHasDied(uint64_t word) {
  const uint64_t space = word >> (2 + kPidBits);
  if (space == 0 || space != JoiningWord() >> (2 + kPidBits)) return false;
  const auto pid = static_cast<pid_t>(word >> 2 & ((1u << kPidBits) - 1));
  const auto process = PidFd::Open(pid);
  if (!process.ok()) return absl::IsNotFound(process.status());
  return process->HasEnded();
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
    QueueHandle handle) {
  TENON_ASSIGN_OR_RETURN(const QueueKind kind,
                         ParseQueueHandle(handle.bytes, handle.fds.size()));
  TENON_ASSIGN_OR_RETURN(
      Segment segment,
      Segment::Adopt(std::move(handle.fds[0]), SegmentKind::kSharedWritable));
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
  std::vector<FdShelf> shelves;
  for (uint64_t i = 0; i < kind.participants; ++i) {
    TENON_ASSIGN_OR_RETURN(FdShelf shelf,
                           FdShelf::Adopt(std::move(handle.fds[1 + 2 * i]),
                                          std::move(handle.fds[2 + 2 * i])));
    shelves.push_back(std::move(shelf));
  }
  auto group = absl::WrapUnique(new QueueGroup(
      kind, std::move(segment), std::move(mapping), std::move(shelves)));
  if (group->words().fenced == 1) {
    if (!JoinSystemFence()) {
      return absl::FailedPreconditionError(
          "this queue was made for processes that may call membarrier(), and "
          "this one may not (a seccomp filter?)");
    }
    group->publication_ = Publication::kFenced;
  }
  return group;
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

bool QueueGroup::MayTake(size_t place, uint64_t state) const {
  switch (QueueStateOf(state)) {
    case QueueParticipant::kFree:
      return true;
    case QueueParticipant::kJoining:
      return JoinerHasDied(state);
    case QueueParticipant::kReady:
      return IsEmpty(place) && HasDied(place, QueueGenerationOf(state));
    case QueueParticipant::kLeft:
      return IsEmpty(place);
  }
  return false;
}

absl::StatusOr<size_t> QueueGroup::Claim() {
  TENON_ASSIGN_OR_RETURN(process_, PidFd::Open(getpid()));
  for (bool again = true; again;) {
    again = false;
    for (size_t place = 0; place < kind_.participants; ++place) {
      QueueParticipant& words = at(place);
      uint64_t state = A::Load(words.state, std::memory_order_acquire);
      if (!MayTake(place, state)) continue;
      if (A::CompareExchange(words.state, state, JoiningWord(),
                             std::memory_order_acq_rel)) {
        TENON_CRASH_POINT("queue.place_claimed");
        own_ = place;
        return place;
      }
      again = true;
    }
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "all ", kind_.participants,
      " places of a queue are taken, by those who live or by what the dead "
      "have put and nobody has taken (max_participants of its options)"));
}

void QueueGroup::Abandon() {
  QueueParticipant& words = at(own_);
  const uint64_t before = A::Load(words.generation, std::memory_order_relaxed);
  A::Store(words.state,
           before == 0 ? 0 : StateWord(before, QueueParticipant::kLeft),
           std::memory_order_release);
}

absl::Status QueueGroup::Enrol(const std::array<int, kQueueWaits>& bells) {
  QueueParticipant& words = at(own_);
  bells_ = bells;
  generation_ = A::Load(words.generation, std::memory_order_relaxed) + 1;
  if (absl::Status laid = PutOnShelf("", {}); !laid.ok()) {
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
