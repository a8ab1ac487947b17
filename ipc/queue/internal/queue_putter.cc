// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_putter.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/locks/timed_mutex.h"

namespace tenon {

absl::StatusOr<uint64_t> QueuePutter::Count(
    std::span<const std::byte> items) const {
  const size_t item_bytes = context_.memory.geometry().item_bytes;
  if (items.size() == item_bytes) [[likely]]
    return 1;
  const uint64_t capacity = context_.memory.geometry().capacity;
  const uint64_t count = items.size() / item_bytes;
  if (count != 0 && count <= capacity && items.size() % item_bytes == 0) {
    return count;
  }
  if (IsShortItem(items.size())) return 1;
  return absl::InvalidArgumentError(absl::StrCat(
      "Put(): ", items.size(), " bytes for ", context_.what, "; want 1 to ",
      capacity, " items of ", item_bytes, " bytes"));
}

bool QueuePutter::IsShortItem(size_t bytes) const {
  return bytes != 0 && bytes < short_below_ && bytes % sizeof(uint64_t) == 0 &&
         bytes / sizeof(uint64_t) <= QueueSequence::kMaxShortWords;
}

absl::StatusOr<bool> QueuePutter::PutNow(std::span<const std::byte> items,
                                         uint64_t count) {
  TENON_RETURN_IF_ERROR(endpoint_.Sync());
  if (context_.closed()) {
    return absl::FailedPreconditionError(
        absl::StrCat("Put(): ", context_.what, " is closed"));
  }
  if (context_.Is(QueueType::kPipe)) {
    if (const std::string why = endpoint_.WhyAlone(); !why.empty()) {
      return absl::UnavailableError(absl::StrCat(
          "Send(): ", context_.what, ": the other end is gone: ", why));
    }
  }
  if (!writer_.KnowsRoom(count)) {
    if (!writer_.Refresh())
      return context_.CorruptWords(context_.membership.slot());
    if (!writer_.KnowsRoom(count)) return false;
  }
  const size_t item_bytes = context_.memory.geometry().item_bytes;
  const size_t first = std::min(items.size(), item_bytes);
  writer_.Write(items.data(), count, first);
  Publish(count, first < item_bytes ? first / sizeof(uint64_t) : 0);
  return true;
}

absl::StatusOr<bool> QueuePutter::TryPut(std::span<const std::byte> items) {
  TENON_RETURN_IF_ERROR(context_.CheckUsable());
  TENON_ASSIGN_OR_RETURN(const uint64_t count, Count(items));
  const TimedMutexLock lock(&endpoint_.mutex(), Deadline::Passed());
  if (!lock.held()) return false;
  return PutNow(items, count);
}

absl::Status QueuePutter::Put(std::span<const std::byte> items,
                              Deadline deadline) {
  TENON_RETURN_IF_ERROR(context_.CheckUsable());
  TENON_ASSIGN_OR_RETURN(const uint64_t count, Count(items));
  const TimedMutexLock lock(&endpoint_.mutex(), deadline);
  if (!lock.held()) return context_.LockTimedOut("putting");
  TENON_ASSIGN_OR_RETURN(const bool put, PutNow(items, count));
  if (put) [[likely]]
    return absl::OkStatus();
  const absl::Status status = WaitAndPut(items, count, deadline);
  endpoint_.NoteWaited(
      context_.memory.at(context_.membership.slot()).put_waits);
  return status;
}

absl::Status QueuePutter::WaitAndPut(std::span<const std::byte> items,
                                     uint64_t count, Deadline deadline) {
  const auto ready = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(endpoint_.mutex()) {
    return RoomOrEnd(count);
  };
  for (bool put = false; !put;) {
    if (const std::string why = endpoint_.WhyAlone(); !why.empty()) {
      return absl::UnavailableError(
          absl::StrCat("Put(): ", context_.what, " is full, and ", why));
    }
    TENON_ASSIGN_OR_RETURN(const bool go_on, endpoint_.Wait(ready, deadline));
    if (!go_on) {
      return absl::DeadlineExceededError(absl::StrCat(
          "Put(): ", context_.what,
          " is full: ", context_.SizeOf(context_.membership.slot()), " of ",
          context_.memory.geometry().capacity,
          " items of this participant have not been taken"));
    }
    TENON_ASSIGN_OR_RETURN(put, PutNow(items, count));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> QueuePutter::IsAlone() {
  TENON_RETURN_IF_ERROR(context_.CheckUsable());
  const TimedMutexLock lock(&endpoint_.mutex(), Deadline::Passed());
  // The thread that waits there notices deaths.
  if (!lock.held()) return false;
  for (bool died = true; died;) {
    TENON_RETURN_IF_ERROR(endpoint_.Sync());
    TENON_ASSIGN_OR_RETURN(
        died, endpoint_.Wait([] { return false; }, Deadline::Passed()));
  }
  return !endpoint_.WhyAlone().empty();
}

}  // namespace tenon
