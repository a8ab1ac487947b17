// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_core.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/doorbell/timed_mutex.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_group.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

using A = StdAtomics;

}  // namespace

// The number of slots ahead for which a cache line is prefetched.
constexpr uint64_t kExpectAhead = 8;

absl::StatusOr<std::unique_ptr<QueueCore>> QueueCore::Create(
    QueueType type, size_t item_bytes, const QueueOptions& options) {
  QueueGeometry geometry;
  geometry.type = static_cast<uint32_t>(type);
  geometry.item_bytes = item_bytes;
  geometry.capacity = options.capacity;
  geometry.participants = options.max_participants;
  geometry.waits_alone = options.wait_when_alone ? 1 : 0;
  TENON_ASSIGN_OR_RETURN(auto group,
                         QueueGroup::Create(geometry, options.name));
  return Join(group, absl::StrCat("queue '", options.name, "'"));
}

absl::StatusOr<std::unique_ptr<QueueCore>> QueueCore::Open(QueueHandle&& handle,
                                                           QueueType type,
                                                           size_t item_bytes) {
  TENON_ASSIGN_OR_RETURN(const QueueGeometry geometry,
                         ParseQueueHandle(handle.bytes, handle.fds.size()));
  if (geometry.type != static_cast<uint32_t>(type) ||
      geometry.item_bytes != item_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Open(): the handle's queue has type ", geometry.type, " and items of ",
        geometry.item_bytes, " bytes; want type ", static_cast<uint32_t>(type),
        " and ", item_bytes, " bytes"));
  }
  TENON_ASSIGN_OR_RETURN(auto group, QueueGroup::Open(handle));
  auto core = Join(group, absl::StrCat("queue ", geometry.id.ToString()));
  if (core.ok()) {
    handle = {};
  } else {
    group->GiveBack(handle);
  }
  return core;
}

// Takes `group` unless it fails.
absl::StatusOr<std::unique_ptr<QueueCore>> QueueCore::Join(
    std::unique_ptr<QueueGroup>& group, std::string what) {
  TENON_RETURN_IF_ERROR(group->Claim().status());
  auto core = absl::WrapUnique(new QueueCore(std::move(group), what));
  absl::Status made = core->get_.MakeBell(QueueWait::kGet, what);
  made.Update(core->put_.MakeBell(QueueWait::kPut, what));
  made.Update(core->join_.MakeBell(QueueWait::kJoin, what));
  if (made.ok()) {
    const std::array<int, kQueueWaits> bells = {core->get_.bell()->bell_fd(),
                                                core->put_.bell()->bell_fd(),
                                                core->join_.bell()->bell_fd()};
    made = core->group_->Join(bells);
  }
  if (made.ok()) return core;
  group = std::move(core->group_);
  group->Abandon();
  return made;
}

QueueCore::QueueCore(std::unique_ptr<QueueGroup> group, std::string what)
    : group_(std::move(group)),
      what_(std::move(what)),
      put_(group_.get(), QueueWait::kGet),
      get_(group_.get(), QueueWait::kPut),
      join_(group_.get(), QueueWait::kJoin),
      done_(group_.get(), QueueWait::kJoin) {
  const QueueGeometry& geometry = group_->geometry();
  for (size_t slot = 0; slot < geometry.participants; ++slot) {
    takers_.push_back(MakeTaker(slot));
  }
  QueueParticipant& own = group_->at(slot());
  writer_ =
      QueueWriter<>(&own.head, &own.take, SlotsOf(slot()), geometry.capacity);
  next_ = slot();
}

QueueCore::~QueueCore() {
  if (group_ != nullptr && fork_count_ == ForkCount()) group_->Leave();
}

QueueSlots<> QueueCore::SlotsOf(size_t slot) const {
  const QueueGeometry& geometry = group_->geometry();
  return {group_->slots_of(slot), geometry.slots(), geometry.item_bytes};
}

QueueTaker<> QueueCore::MakeTaker(size_t slot) const {
  QueueParticipant& words = group_->at(slot);
  return {&words.head, &words.take, SlotsOf(slot), group_->geometry().capacity};
}

absl::StatusOr<QueueHandle> QueueCore::Share() const {
  TENON_RETURN_IF_ERROR(CheckUsable());
  return group_->Share();
}

absl::Status QueueCore::LockTimedOut(absl::string_view doing) const {
  return absl::DeadlineExceededError(
      absl::StrCat(what_, ": another thread of this process was ", doing,
                   " until the deadline"));
}

absl::Status QueueCore::InUse(absl::string_view call, QueueWait wait) const {
  return absl::FailedPreconditionError(absl::StrCat(
      call, ": another thread of this process is ",
      wait == QueueWait::kPut ? "putting into " : "getting from ", what_,
      "; an event loop must be the only one; wait for the thread to return, "
      "or open the queue once more"));
}

absl::Status QueueCore::CorruptWords(size_t slot) const {
  return absl::DataLossError(absl::StrCat(
      what_, ": corrupt control words in slot ", slot, " (head ",
      A::Load(group_->at(slot).head, std::memory_order_relaxed), ", take ",
      A::Load(group_->at(slot).take, std::memory_order_relaxed),
      "): another process overwrote the queue's memory"));
}

bool QueueCore::closed() const {
  return A::Load(group_->words().closed, std::memory_order_seq_cst) != 0;
}

absl::Status QueueCore::Close() {
  TENON_RETURN_IF_ERROR(CheckUsable());
  A::Store(group_->words().closed, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.closed");
  group_->Announce();
  return absl::OkStatus();
}

uint64_t QueueCore::SizeOf(size_t slot) const {
  const QueueParticipant& words = group_->at(slot);
  // In this order: a taken item has been put.
  const uint64_t take = A::Load(words.take, std::memory_order_acquire);
  const uint64_t size = A::Load(words.head, std::memory_order_acquire) - take;
  return size <= capacity() ? size : capacity();
}

uint64_t QueueCore::size() const {
  uint64_t all = 0;
  for (size_t slot = 0; slot < takers_.size(); ++slot) all += SizeOf(slot);
  return all;
}

uint64_t QueueCore::put() const {
  return A::Load(group_->at(slot()).head, std::memory_order_acquire);
}

uint64_t QueueCore::taken() const {
  return A::Load(group_->at(slot()).take, std::memory_order_acquire);
}

absl::StatusOr<bool> QueueCore::IsAlone() {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const TimedMutexLock lock(&put_.mutex(), Deadline::Passed());
  // The thread that waits there notices deaths.
  if (!lock.held()) return false;
  for (bool died = true; died;) {
    TENON_RETURN_IF_ERROR(put_.Sync());
    TENON_ASSIGN_OR_RETURN(died,
                           put_.Wait([] { return false; }, Deadline::Passed()));
  }
  return put_.IsAlone();
}

bool QueueCore::IsAsleep(QueueWait wait) const {
  return (A::Load(group_->sleeping(slot(), wait), std::memory_order_acquire) &
          1) != 0;
}

absl::Status QueueCore::PublishFds(absl::string_view bytes,
                                   absl::Span<const int> fds) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  return group_->PublishFds(bytes, fds);
}

absl::StatusOr<PublishedFds> QueueCore::ReadFds(size_t slot,
                                                uint64_t* generation) const {
  TENON_RETURN_IF_ERROR(CheckUsable());
  return group_->ReadFds(slot, generation);
}

// ---- Putting ----

absl::StatusOr<uint64_t> QueueCore::Count(
    std::span<const std::byte> items) const {
  const size_t item_bytes = group_->geometry().item_bytes;
  if (items.size() == item_bytes) [[likely]]
    return 1;
  const uint64_t count = items.size() / item_bytes;
  if (count != 0 && count <= capacity() && items.size() % item_bytes == 0) {
    return count;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Put(): ", items.size(), " bytes for ", what_, "; want 1 to ", capacity(),
      " items of ", item_bytes, " bytes"));
}

absl::StatusOr<bool> QueueCore::PutNow(std::span<const std::byte> items,
                                       uint64_t count) {
  TENON_RETURN_IF_ERROR(put_.Sync());
  if (closed()) {
    return absl::FailedPreconditionError(
        absl::StrCat("Put(): ", what_, " is closed"));
  }
  if (Is(QueueType::kPipe) && put_.IsAlone()) {
    return absl::UnavailableError(
        absl::StrCat("Send(): ", what_, ": the other end is gone"));
  }
  if (!writer_.KnowsRoom(count)) {
    if (!writer_.Refresh()) return CorruptWords(slot());
    if (!writer_.KnowsRoom(count)) return false;
  }
  const size_t item_bytes = group_->geometry().item_bytes;
  for (uint64_t i = 0; i < count; ++i) {
    writer_.Write(i, items.data() + i * item_bytes);
  }
  TENON_CRASH_POINT("queue.written");
  writer_.Publish(count, group_->publication());
  TENON_CRASH_POINT("queue.published");
  // A getter has its cache line: prefetched now, it arrives in time.
  writer_.slots().ExpectWrite(writer_.head() + kExpectAhead);
  put_.RingAll();
  return true;
}

absl::StatusOr<bool> QueueCore::TryPut(std::span<const std::byte> items) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  TENON_ASSIGN_OR_RETURN(const uint64_t count, Count(items));
  const TimedMutexLock lock(&put_.mutex(), Deadline::Passed());
  if (!lock.held()) return false;
  return PutNow(items, count);
}

absl::Status QueueCore::Put(std::span<const std::byte> items,
                            Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  TENON_ASSIGN_OR_RETURN(const uint64_t count, Count(items));
  const TimedMutexLock lock(&put_.mutex(), deadline);
  if (!lock.held()) return LockTimedOut("putting");
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const bool put, PutNow(items, count));
    if (put) return absl::OkStatus();
    if (put_.IsAlone()) {
      return absl::UnavailableError(absl::StrCat(
          "Put(): ", what_, " is full, and all others have left or died"));
    }
    TENON_ASSIGN_OR_RETURN(
        const bool go_on,
        put_.Wait([&] { return RoomOrEnd(count); }, deadline));
    if (!go_on) {
      return absl::DeadlineExceededError(absl::StrCat(
          "Put(): ", what_, " is full: ", own_size(), " of ", capacity(),
          " items of this participant have not been taken"));
    }
  }
}

// ---- Event loops ----

absl::StatusOr<int> QueueCore::PollFd(QueueWait wait) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  QueueEndpoint& endpoint = EndpointFor(wait);
  const TimedMutexLock lock(&endpoint.mutex(), Deadline::Passed());
  if (!lock.held()) return InUse("PollFd()", wait);
  TENON_RETURN_IF_ERROR(endpoint.Sync());
  return endpoint.bell()->PollFd();
}

absl::StatusOr<bool> QueueCore::Arm(QueueWait wait) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  QueueEndpoint& endpoint = EndpointFor(wait);
  const TimedMutexLock lock(&endpoint.mutex(), Deadline::Passed());
  if (!lock.held()) return InUse("Arm()", wait);
  TENON_RETURN_IF_ERROR(endpoint.Sync());
  return endpoint.bell()->Arm([&] {
    if (!endpoint.IsInSync()) return true;
    return wait == QueueWait::kPut ? RoomOrEnd(1) : HasReasonToWake();
  });
}

void QueueCore::Disarm(QueueWait wait) {
  if (!CheckUsable().ok()) return;
  QueueEndpoint& endpoint = EndpointFor(wait);
  const TimedMutexLock lock(&endpoint.mutex(), Deadline::Passed());
  if (lock.held()) endpoint.bell()->Disarm();
}

}  // namespace tenon
