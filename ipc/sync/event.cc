// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/event.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/sync/internal/event_core.h"
#include "tenon/ipc/sync/internal/sync_block.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/locks/futex.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {
namespace {

using Core = EventCore<StdAtomics, KernelFutex>;

}  // namespace

struct Event::Layout {
  static constexpr uint64_t kKind = 0x746e76456e6f6e54;  // "TnonEvnt"
  static constexpr char kName[] = "an Event";
  SharedWord<uint64_t> kind;
  EventWords words;
};

Event::Event(Block block)
    : block_(std::move(block)), layout_(block_->layout()) {}
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;
Event::~Event() = default;

int Event::fd() const { return block_->fd(); }
const std::string& Event::name() const { return block_->name(); }

absl::StatusOr<Event> Event::Wrap(absl::StatusOr<Block> block) {
  if (!block.ok()) return block.status();
  return Event(*std::move(block));
}

absl::StatusOr<Event> Event::Create(const SegmentOptions& options) {
  return Wrap(SyncBlock<Layout>::Create(
      options, [](Layout&) { return absl::OkStatus(); }));
}

absl::StatusOr<Event> Event::Adopt(UniqueFd fd) {
  return Wrap(SyncBlock<Layout>::Adopt(std::move(fd)));
}

absl::StatusOr<Event> Event::Open(absl::string_view name) {
  return Wrap(SyncBlock<Layout>::Open(name));
}

absl::Status Event::Set() const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  Core::Set(layout_->words);
  return absl::OkStatus();
}

absl::Status Event::Clear() const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  Core::Clear(layout_->words);
  return absl::OkStatus();
}

absl::StatusOr<bool> Event::IsSet() const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  return Core::IsSet(layout_->words);
}

absl::Status Event::Wait(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  if (Core::Wait(layout_->words, deadline)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      "Event::Wait(): the event was not set before the deadline");
}

}  // namespace tenon
