// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_core.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_context.h"
#include "tenon/ipc/queue/internal/queue_endpoint.h"
#include "tenon/ipc/queue/internal/queue_handle_bytes.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/internal/queue_memory.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_options.h"
#include "tenon/ipc/queue/queue_stats.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

using A = StdAtomics;

}  // namespace

absl::StatusOr<std::unique_ptr<QueueCore>> QueueCore::Create(
    QueueType type, size_t item_bytes, const QueueOptions& options) {
  QueueGeometry geometry;
  geometry.type = static_cast<uint32_t>(type);
  geometry.item_bytes = item_bytes;
  geometry.capacity = options.capacity;
  geometry.participants = options.max_participants;
  geometry.waits_alone = options.wait_when_alone ? 1 : 0;
  TENON_ASSIGN_OR_RETURN(QueueMemory memory,
                         QueueMemory::Create(geometry, options.name));
  auto context =
      std::make_unique<QueueContext>(std::move(memory), options.name);
  return Join(context);
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
  TENON_ASSIGN_OR_RETURN(QueueMemory memory, QueueMemory::Open(handle));
  const std::string name = memory.name();
  auto context = std::make_unique<QueueContext>(std::move(memory), name);
  auto core = Join(context);
  if (core.ok()) {
    handle = {};
  } else {
    context->memory.GiveBack(handle);
  }
  return core;
}

// Takes `context` unless it fails.
absl::StatusOr<std::unique_ptr<QueueCore>> QueueCore::Join(
    std::unique_ptr<QueueContext>& context) {
  TENON_RETURN_IF_ERROR(context->membership.Claim());
  auto core = absl::WrapUnique(new QueueCore(std::move(context)));
  absl::Status joined = core->JoinWithBells();
  if (joined.ok()) return core;
  context = std::move(core->context_);
  context->membership.Abandon();
  return joined;
}

QueueCore::QueueCore(std::unique_ptr<QueueContext> context)
    : context_(std::move(context)),
      putter_(context_.get()),
      tasks_(context_.get()),
      getter_(context_.get(), &tasks_) {}

absl::Status QueueCore::JoinWithBells() {
  TENON_ASSIGN_OR_RETURN(const int get_bell,
                         getter_.endpoint().MakeBell(QueueWait::kGet));
  TENON_ASSIGN_OR_RETURN(const int put_bell,
                         putter_.endpoint().MakeBell(QueueWait::kPut));
  TENON_ASSIGN_OR_RETURN(const int join_bell,
                         tasks_.endpoint().MakeBell(QueueWait::kJoin));
  return context_->membership.Join({get_bell, put_bell, join_bell});
}

QueueCore::~QueueCore() {
  if (context_ != nullptr && context_->fork_count == ForkCount()) {
    context_->membership.Leave();
  }
}

absl::StatusOr<QueueHandle> QueueCore::Share() const {
  TENON_RETURN_IF_ERROR(context_->CheckUsable());
  TENON_ASSIGN_OR_RETURN(QueueHandle handle, context_->memory.Share());
  handle.guests = context_->guests;
  return handle;
}

absl::Status QueueCore::Close() {
  TENON_RETURN_IF_ERROR(context_->CheckUsable());
  A::Store(context_->memory.words().closed, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("queue.closed");
  context_->members.Announce();
  return absl::OkStatus();
}

bool QueueCore::IsAsleep(QueueWait wait) const {
  return (A::Load(context_->memory.sleeping(slot(), wait),
                  std::memory_order_acquire) &
          1) != 0;
}

QueueStats QueueCore::stats() const {
  return {.get_sleeps = getter_.endpoint().sleeps(),
          .put_sleeps = putter_.endpoint().sleeps(),
          .get_wakes = getter_.endpoint().rings(),
          .put_wakes = putter_.endpoint().rings(),
          .get_asleep = IsAsleep(QueueWait::kGet),
          .put_asleep = IsAsleep(QueueWait::kPut),
          .get_waits = context_->memory.at(slot()).get_waits.Read(),
          .put_waits = context_->memory.at(slot()).put_waits.Read()};
}

absl::Status QueueCore::PublishFds(absl::string_view bytes,
                                   absl::Span<const int> fds) {
  TENON_RETURN_IF_ERROR(context_->CheckUsable());
  return context_->membership.PublishFds(bytes, fds);
}

absl::StatusOr<Message> QueueCore::ReadFds(size_t slot) const {
  TENON_RETURN_IF_ERROR(context_->CheckUsable());
  return context_->members.ReadFds(slot);
}

}  // namespace tenon
