// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingReader: an end of a ring that receives its records (ring.h).

#ifndef TENON_IPC_RING_RING_READER_H_
#define TENON_IPC_RING_RING_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_report.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Ownership: owns its memory, its mapping of the producer's, and descriptors
//   (close-on-exec). Destruction tells the producer that it has left.
// Threads: thread-compatible.
// Processes: inert in a forked child.
// Trust: records are copied before anything else, and are the producer's word.
//   A head that moved back, or that is farther ahead than the capacity, poisons
//   the ring: kDataLoss from then on.
// Failure: the errors below are sticky unless stated otherwise.
class RingReader {
 public:
  // Validates an offer and maps its memory. Errors: kInvalidArgument if it is
  // malformed; kFailedPrecondition naming both versions, or the seals that are
  // missing; kResourceExhausted naming the limit, after which the offer is
  // unchanged and can be attached to later.
  static absl::StatusOr<std::unique_ptr<RingReader>> Attach(RingOffer&& offer);
  ~RingReader();
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  // The reply for the producer. Errors: kResourceExhausted.
  absl::StatusOr<RingReply> Reply() const;

  size_t record_bytes() const;
  size_t capacity() const;
  RingPolicy policy() const;

  // Takes at least one record, at most as many as fit into `out`, and
  // acknowledges them; returns their number. Waits for the first until
  // `deadline`. Errors:
  //   kDeadlineExceeded  no record came; not sticky
  //   kDataLoss          records were lost, and how many: with kDropOldest they
  //                      were overwritten (not sticky: the next call returns
  //                      the oldest record left; lost() counts); this reader
  //                      was dropped; or the ring is poisoned
  //   kOutOfRange        the end: the producer has closed or destroyed its end,
  //                      and all of its records have been read
  //   kUnavailable       the producer has died, and all of its records have
  //                      been read
  //   kInvalidArgument   `out` is too small for one record; not sticky
  absl::StatusOr<size_t> Get(std::span<std::byte> out, Deadline deadline);
  // Does not wait: 0 if there is no record. No system call, except to wake a
  // producer that waits for room. Does not notice a death.
  absl::StatusOr<size_t> TryGet(std::span<std::byte> out);

  // As Get() and TryGet(), without acknowledging: the same records are returned
  // again until Advance() acknowledges them.
  absl::StatusOr<size_t> Peek(std::span<std::byte> out, Deadline deadline);
  absl::StatusOr<size_t> TryPeek(std::span<std::byte> out);
  // Errors: kInvalidArgument if fewer records have been peeked at; not sticky.
  absl::Status Advance(uint64_t records);

  // Records that were lost to kDropOldest.
  uint64_t lost() const;

  // For event loops (doorbell.h): waits for a record, or for the end.
  absl::StatusOr<int> PollFd();
  absl::StatusOr<bool> Arm();
  void Disarm();

  RingStats stats() const;

 private:
  struct State;

  explicit RingReader(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_READER_H_
