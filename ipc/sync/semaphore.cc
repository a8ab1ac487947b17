// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/semaphore.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/sync/internal/semaphore_core.h"
#include "tenon/ipc/sync/internal/sync_block.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/locks/futex.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {
namespace {

using Core = SemaphoreCore<StdAtomics, KernelFutex>;

}  // namespace

struct Semaphore::Layout {
  static constexpr uint64_t kKind = 0x616d65536e6f6e54;  // "TnonSema"
  static constexpr char kName[] = "a Semaphore";
  SharedWord<uint64_t> kind;
  SemaphoreWords words;
  uint64_t most;
  uint64_t bounded;
};

Semaphore::Semaphore(Block block)
    : block_(std::move(block)), layout_(block_->layout()) {}
Semaphore::Semaphore(Semaphore&&) noexcept = default;
Semaphore& Semaphore::operator=(Semaphore&&) noexcept = default;
Semaphore::~Semaphore() = default;

int Semaphore::fd() const { return block_->fd(); }
const std::string& Semaphore::name() const { return block_->name(); }

absl::StatusOr<Semaphore> Semaphore::Create(uint32_t value, bool bounded,
                                            const SegmentOptions& options) {
  if (value > kMaxValue) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Semaphore::Create(): ", value, " units; want at most ", kMaxValue));
  }
  auto block = SyncBlock<Layout>::Create(options, [&](Layout& layout) {
    StdAtomics::Store(layout.words.value, value, std::memory_order_relaxed);
    layout.most = bounded ? value : kMaxValue;
    layout.bounded = bounded;
    return absl::OkStatus();
  });
  if (!block.ok()) return block.status();
  return Semaphore(*std::move(block));
}

absl::StatusOr<Semaphore> Semaphore::Check(absl::StatusOr<Block> block,
                                           bool bounded) {
  if (!block.ok()) return block.status();
  if (((*block)->layout()->bounded != 0) != bounded) {
    return absl::InvalidArgumentError(
        bounded ? "the object is a Semaphore; want a BoundedSemaphore"
                : "the object is a BoundedSemaphore; want a Semaphore");
  }
  return Semaphore(*std::move(block));
}

absl::StatusOr<Semaphore> Semaphore::Create(uint32_t value,
                                            const SegmentOptions& options) {
  return Create(value, /*bounded=*/false, options);
}

absl::StatusOr<Semaphore> Semaphore::Adopt(UniqueFd fd) {
  return Check(SyncBlock<Layout>::Adopt(std::move(fd)), /*bounded=*/false);
}

absl::StatusOr<Semaphore> Semaphore::Open(absl::string_view name) {
  return Check(SyncBlock<Layout>::Open(name), /*bounded=*/false);
}

absl::Status Semaphore::Acquire(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  if (Core::Acquire(layout_->words, deadline)) return absl::OkStatus();
  return absl::DeadlineExceededError(
      "Semaphore::Acquire(): no unit was released before the deadline");
}

absl::Status Semaphore::Release(uint32_t count) const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  const auto most =
      static_cast<uint32_t>(std::min<uint64_t>(layout_->most, kMaxValue));
  if (Core::Release(layout_->words, count, most)) return absl::OkStatus();
  if (layout_->bounded != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("BoundedSemaphore::Release(): ", count,
                     " units would exceed the initial ", most));
  }
  return absl::OutOfRangeError(absl::StrCat("Semaphore::Release(): ", count,
                                            " units would exceed the limit of ",
                                            most));
}

absl::StatusOr<uint32_t> Semaphore::GetValue() const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  return StdAtomics::Load(layout_->words.value, std::memory_order_acquire);
}

absl::StatusOr<BoundedSemaphore> BoundedSemaphore::Wrap(
    absl::StatusOr<Semaphore> semaphore) {
  if (!semaphore.ok()) return semaphore.status();
  return BoundedSemaphore(*std::move(semaphore));
}

absl::StatusOr<BoundedSemaphore> BoundedSemaphore::Create(
    uint32_t value, const SegmentOptions& options) {
  return Wrap(Semaphore::Create(value, /*bounded=*/true, options));
}

absl::StatusOr<BoundedSemaphore> BoundedSemaphore::Adopt(UniqueFd fd) {
  return Wrap(Semaphore::Check(
      SyncBlock<Semaphore::Layout>::Adopt(std::move(fd)), /*bounded=*/true));
}

absl::StatusOr<BoundedSemaphore> BoundedSemaphore::Open(
    absl::string_view name) {
  return Wrap(Semaphore::Check(SyncBlock<Semaphore::Layout>::Open(name),
                               /*bounded=*/true));
}

}  // namespace tenon
