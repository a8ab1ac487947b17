// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingReaderCore: a reader of a ring. Internal to RingReader (ring_reader.h),
// whose functions these are.

#ifndef TENON_IPC_RING_INTERNAL_RING_READER_CORE_H_
#define TENON_IPC_RING_INTERNAL_RING_READER_CORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/internal/ring_protocol.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_report.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {

class RingReaderCore {
 public:
  static absl::StatusOr<std::unique_ptr<RingReaderCore>> Attach(
      RingOffer&& offer);
  ~RingReaderCore();
  RingReaderCore(const RingReaderCore&) = delete;
  RingReaderCore& operator=(const RingReaderCore&) = delete;

  absl::StatusOr<RingReply> Reply() const;

  size_t record_bytes() const { return geometry_.record_bytes; }
  size_t capacity() const { return geometry_.capacity; }
  RingPolicy policy() const {
    return static_cast<RingPolicy>(geometry_.policy);
  }

  absl::StatusOr<size_t> Get(std::span<std::byte> out, Deadline deadline);
  absl::StatusOr<size_t> TryGet(std::span<std::byte> out);
  absl::StatusOr<size_t> Peek(std::span<std::byte> out, Deadline deadline);
  absl::StatusOr<size_t> TryPeek(std::span<std::byte> out);
  absl::Status Advance(uint64_t records);
  uint64_t lost() const { return lost_; }

  absl::StatusOr<int> PollFd() { return bell_->PollFd(); }
  absl::StatusOr<bool> Arm();
  void Disarm() { bell_->Disarm(); }

  RingStats stats() const;

 private:
  explicit RingReaderCore(const RingOfferMessage& offer);
  absl::Status Map(const RingFds& fds);
  absl::Status MakeOwn(RingFds& fds);
  const RingProducerWords& producer() const;
  RingReaderWords& words() const;
  bool IsPlain(std::span<std::byte> out) const;
  bool HasJoined();
  bool WasDropped() const;
  bool HasReasonToWake();
  absl::Status Refresh();
  absl::Status Poison(const absl::Status& why);
  absl::Status Dropped();
  absl::StatusOr<size_t> CheckOverrun(size_t copied);
  absl::StatusOr<bool> Await(Deadline deadline);

  const RingGeometry geometry_;
  const RandomId ring_;
  const uint64_t index_;
  const uint64_t number_;
  const std::string what_;
  ControlView view_;
  std::unique_ptr<ControlMemory> own_;
  std::optional<PidFd> process_;
  std::unique_ptr<Doorbell> bell_;
  DoorbellRinger ringer_;
  RingCursor<> cursor_;
  Publication publication_ = Publication::kSequential;
  bool joined_ = false;
  uint64_t seen_ = 0;  // Records peeked at, from the tail on.
  uint64_t lost_ = 0;
  absl::Status end_;  // Sticky.
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon

#endif  // TENON_IPC_RING_INTERNAL_RING_READER_CORE_H_
