// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingProducer: the end of a ring that puts records (ring.h).

#ifndef TENON_IPC_RING_RING_PRODUCER_H_
#define TENON_IPC_RING_RING_PRODUCER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_report.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

struct RingOptions {
  std::string name = "ring";  // In errors, and as the memory's label.
  size_t record_bytes = 64;   // A multiple of 8, up to 64 KiB.
  size_t capacity = 1024;     // Records; a power of two.
  RingPolicy policy = RingPolicy::kWait;
  // Which end executes the barrier between a record and a sleep (decision 008).
  // True: the end that goes to sleep, by a system call that interrupts the core
  // of the other; for many records and few sleeps. False: the end that puts or
  // acknowledges a record, each time, which takes some tens of nanoseconds; for
  // a ring that often sleeps.
  bool sleeper_fences = true;
};

// Ownership: owns its memory and descriptors (close-on-exec), and the readers'
//   replies that it was given. Destruction closes the ring without waiting.
// Threads: thread-compatible.
// Processes: inert in a forked child: calls fail with kFailedPrecondition.
// Trust: a reader's tail is accepted only if it moves forward and not beyond
//   the head; else that reader is dropped. For its bell, see doorbell.h. A
//   reader that makes no progress holds up a kWait ring until the deadline; a
//   stopped reader is not treated as dead.
// Failure: a call that fails puts nothing.
class RingProducer {
 public:
  // Errors: kInvalidArgument for sizes out of range; kResourceExhausted naming
  // the limit (descriptors, memory).
  static absl::StatusOr<std::unique_ptr<RingProducer>> Create(
      const RingOptions& options);
  ~RingProducer();
  RingProducer(const RingProducer&) = delete;
  RingProducer& operator=(const RingProducer&) = delete;

  // An offer for one reader. Errors: kResourceExhausted at
  // RingGeometry::kMaxReaders, unanswered offers included, or at a limit of
  // descriptors.
  absl::StatusOr<RingOffer> Offer();

  // Adds the reader of that reply, which gets the records put from now on;
  // returns its number. Errors, after which another reply may succeed:
  // kInvalidArgument if the reply does not answer an offer of this ring, or its
  // descriptors are of the wrong type; kFailedPrecondition if seals are missing
  // or it has another version; kResourceExhausted.
  absl::StatusOr<uint64_t> AddReader(RingReply reply);

  // Drops the reader, or the offer, of that number: the producer no longer
  // waits for it, and its calls report that it was dropped. Errors: kNotFound.
  absl::Status RemoveReader(uint64_t number);

  // Puts all of `records`, at least one and at most the capacity; they become
  // visible at once. Waits for room until `deadline` with kWait; with the other
  // policies there is always room. Errors:
  //   kDeadlineExceeded    naming the slowest reader, and whether it is stopped
  //   kFailedPrecondition  no reader was added yet (except with kDropOldest,
  //                        which needs none), or the ring is closed
  //   kInvalidArgument     not a whole number of records, or too many
  //   that of a RingEnd    of the last reader, if none is left
  absl::Status Put(std::span<const std::byte> records, Deadline deadline);

  // Does not wait: false if there is no room. No system call, except to wake
  // sleeping readers, once for each sleep.
  absl::StatusOr<bool> TryPut(std::span<const std::byte> records);

  // The number of records put, and the number of these that every current
  // reader has acknowledged: the producer may release their resources. A dead
  // reader counts until its death is noticed, by Put() when it waits, or by
  // CheckReaders().
  uint64_t put() const;
  uint64_t acknowledged();

  // Drops readers that have died or left. One system call.
  absl::Status CheckReaders();
  // The readers dropped since the last call.
  std::vector<RingEnd> TakeEnded();
  size_t num_readers() const;

  // Closes the ring. Waits until every living reader has acknowledged all
  // records, or until `deadline`: kDeadlineExceeded naming the slowest; may be
  // called again.
  absl::Status Close(Deadline deadline);

  // For event loops (doorbell.h): waits for room for one record.
  absl::StatusOr<int> PollFd();
  absl::StatusOr<bool> Arm();
  void Disarm();

  RingStats stats() const;

 private:
  struct State;

  explicit RingProducer(std::unique_ptr<State> state);

  const std::unique_ptr<State> state_;
};

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_PRODUCER_H_
