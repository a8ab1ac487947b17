// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_memory.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_handle_bytes.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/system_fence.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/pages/shown_memfd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon {
namespace {

using A = StdAtomics;

constexpr char kWhat[] = "a queue";

}  // namespace

absl::StatusOr<QueueMemory> QueueMemory::Create(QueueGeometry geometry,
                                                const std::string& name) {
  TENON_RETURN_IF_ERROR(CheckQueueGeometry(geometry));
  TENON_ASSIGN_OR_RETURN(geometry.id, RandomId::New());
  SegmentOptions options;
  options.strategy = SharingStrategy::kFileDescriptor;
  options.name_prefix = absl::StrCat(kQueueLabel, name);
  TENON_ASSIGN_OR_RETURN(Segment segment, Segment::CreateSharedWritable(
                                              geometry.bytes(), options));
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  QueueMemory memory(geometry, std::move(segment), std::move(mapping));
  for (uint64_t i = 0; i < geometry.participants; ++i) {
    TENON_ASSIGN_OR_RETURN(FdBoard board, FdBoard::Create());
    memory.boards_.push_back(std::move(board));
  }
  memory.words().geometry = geometry;
  if (JoinSystemFence()) {
    memory.words().fenced = 1;
    memory.publication_ = Publication::kFenced;
  }
  return memory;
}

absl::StatusOr<QueueMemory> QueueMemory::Open(QueueHandle& handle) {
  TENON_ASSIGN_OR_RETURN(const QueueGeometry geometry,
                         ParseQueueHandle(handle.bytes, handle.fds.size()));
  TENON_ASSIGN_OR_RETURN(UniqueFd fd, DuplicateFd(handle.fds[0].get(), kWhat));
  TENON_ASSIGN_OR_RETURN(
      Segment segment,
      Segment::Adopt(std::move(fd), SegmentKind::kSharedWritable));
  if (segment.size_bytes() < geometry.bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Open(): the memory of a queue has ", SizeText(segment.size_bytes()),
        "; its geometry needs ", SizeText(geometry.bytes())));
  }
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  QueueGeometry found;
  std::memcpy(static_cast<void*>(&found), mapping.data(), sizeof(found));
  if (found != geometry) {
    return absl::InvalidArgumentError(
        "Open(): the memory in the handle belongs to another queue");
  }
  QueueMemory memory(geometry, std::move(segment), std::move(mapping));
  if (memory.words().fenced == 1) {
    if (!JoinSystemFence()) {
      return absl::FailedPreconditionError(
          "Open(): the queue's participants call membarrier(), which this "
          "process may not (a seccomp filter?)");
    }
    memory.publication_ = Publication::kFenced;
  }
  for (uint64_t i = 0; i < geometry.participants; ++i) {
    auto board = FdBoard::Adopt(std::move(handle.fds[1 + 2 * i]),
                                std::move(handle.fds[2 + 2 * i]));
    if (!board.ok()) {
      memory.GiveBack(handle);
      return board.status();
    }
    memory.boards_.push_back(*std::move(board));
  }
  return memory;
}

void QueueMemory::GiveBack(QueueHandle& handle) {
  for (size_t i = 0; i < boards_.size(); ++i) {
    auto [in, out] = boards_[i].Release();
    handle.fds[1 + 2 * i] = std::move(in);
    handle.fds[2 + 2 * i] = std::move(out);
  }
  boards_.clear();
}

absl::StatusOr<QueueHandle> QueueMemory::Share() const {
  QueueHandle handle;
  handle.bytes = QueueHandleBytes(geometry_);
  TENON_ASSIGN_OR_RETURN(UniqueFd memory, DuplicateFd(segment_.fd(), kWhat));
  handle.fds.push_back(std::move(memory));
  for (const FdBoard& board : boards_) {
    for (const int fd : board.fds()) {
      TENON_ASSIGN_OR_RETURN(UniqueFd copy, DuplicateFd(fd, kWhat));
      handle.fds.push_back(std::move(copy));
    }
  }
  return handle;
}

std::string QueueMemory::name() const {
  const std::string label = LabelOfOwnMemfd(segment_.fd());
  absl::string_view name = label;
  // Another process has chosen it.
  if (!absl::ConsumePrefix(&name, kQueueLabel) ||
      !CheckShmPrefix(std::string(name)).ok()) {
    return "";
  }
  return std::string(name);
}

SharedWord<uint64_t>& QueueMemory::sleeping(size_t slot, QueueWait wait) const {
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

bool QueueMemory::IsEmpty(size_t slot) const {
  QueueTaker<> taker = MakeTaker(slot);
  return taker.Refresh() && !taker.has_item();
}

uint64_t QueueMemory::EndOf(size_t slot) const {
  const QueueParticipant& words = at(slot);
  return FindQueueEnd(words.head, words.take, SlotsOf(slot),
                      geometry_.capacity);
}

uint64_t QueueMemory::NextSequence(size_t slot) const {
  return SlotsOf(slot).Sequence(
      A::Load(at(slot).take, std::memory_order_acquire));
}

void QueueMemory::RecoverRing(size_t slot) const {
  QueueParticipant& words = at(slot);
  RecoverQueueRing(words.head, words.take, SlotsOf(slot), geometry_.capacity);
}

QueueSlots<> QueueMemory::SlotsOf(size_t slot) const {
  auto* words = reinterpret_cast<SharedWord<uint64_t>*>(
      mapping_.data() + geometry_.slots_offset() +
      slot * geometry_.ring_bytes());
  return {words, geometry_.slots(), geometry_.item_bytes,
          geometry_.words_per_slot()};
}

QueueWriter<> QueueMemory::MakeWriter(size_t slot) const {
  QueueParticipant& words = at(slot);
  return {&words.head, &words.take, SlotsOf(slot), geometry_.capacity};
}

QueueTaker<> QueueMemory::MakeTaker(size_t slot) const {
  return {&at(slot).take, SlotsOf(slot), geometry_.capacity};
}

}  // namespace tenon
