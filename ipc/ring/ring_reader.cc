// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/ring_reader.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/ring/internal/ring_reader_core.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_report.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {

RingReader::RingReader(std::unique_ptr<RingReaderCore> core)
    : core_(std::move(core)) {}
RingReader::~RingReader() = default;

absl::StatusOr<std::unique_ptr<RingReader>> RingReader::Attach(
    RingOffer&& offer) {
  TENON_ASSIGN_OR_RETURN(auto core, RingReaderCore::Attach(std::move(offer)));
  return absl::WrapUnique(new RingReader(std::move(core)));
}

absl::StatusOr<RingReply> RingReader::Reply() const { return core_->Reply(); }
size_t RingReader::record_bytes() const { return core_->record_bytes(); }
size_t RingReader::capacity() const { return core_->capacity(); }
RingPolicy RingReader::policy() const { return core_->policy(); }
absl::StatusOr<size_t> RingReader::Get(std::span<std::byte> out,
                                       Deadline deadline) {
  return core_->Get(out, deadline);
}
absl::StatusOr<size_t> RingReader::TryGet(std::span<std::byte> out) {
  return core_->TryGet(out);
}
absl::StatusOr<size_t> RingReader::Peek(std::span<std::byte> out,
                                        Deadline deadline) {
  return core_->Peek(out, deadline);
}
absl::StatusOr<size_t> RingReader::TryPeek(std::span<std::byte> out) {
  return core_->TryPeek(out);
}
absl::Status RingReader::Advance(uint64_t records) {
  return core_->Advance(records);
}
uint64_t RingReader::lost() const { return core_->lost(); }
absl::StatusOr<int> RingReader::PollFd() { return core_->PollFd(); }
absl::StatusOr<bool> RingReader::Arm() { return core_->Arm(); }
void RingReader::Disarm() { core_->Disarm(); }
RingStats RingReader::stats() const { return core_->stats(); }

}  // namespace tenon
