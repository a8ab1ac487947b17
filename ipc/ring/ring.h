// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingProducer and RingReader: records of a fixed size from one process to one
// or more others through shared memory, without system calls while all keep up.
//
//   TENON_ASSIGN_OR_RETURN(auto ring,
//                          RingProducer::Create({.name = "frames"}));
//   TENON_ASSIGN_OR_RETURN(RingOffer offer, ring->Offer());  // To the reader.
//   TENON_RETURN_IF_ERROR(ring->AddReader(std::move(reply)).status());
//   TENON_RETURN_IF_ERROR(ring->Put(record, deadline));
//
//   // The reader:
//   TENON_ASSIGN_OR_RETURN(auto reader, RingReader::Attach(std::move(offer)));
//   TENON_ASSIGN_OR_RETURN(RingReply reply, reader->Reply());
//   TENON_ASSIGN_OR_RETURN(size_t records, reader->Get(buffer, deadline));
//
// Every record goes to every reader. Each reader has a tail of its own, which
// is the acknowledgement: a reader that must act before the sender drops its
// reference, such as by claiming a block, acts between Peek() and Advance().
//
// Each process writes only memory that all others map read-only. So a process
// that dies at any instruction leaves nothing inconsistent, and a hostile one
// can spoil only its own part: see Trust.
//
// Memory order: a reader that has received a record sees everything that the
//   producer wrote before Put(). Once acknowledged() counts a record, the
//   producer sees everything that the readers did before Advance() or Get().

#ifndef TENON_IPC_RING_RING_H_
#define TENON_IPC_RING_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/internal/ring_protocol.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {

struct RingOptions {
  std::string name = "ring";  // In errors, and as the memory's label.
  size_t record_bytes = 64;   // A multiple of 8, up to 64 KiB.
  size_t capacity = 1024;     // Records; a power of two.
  RingPolicy policy = RingPolicy::kWait;
};

// A reader for which the producer no longer waits, and the reason:
//   kUnavailable        it has died or left
//   kDataLoss           its tail is corrupt
//   kResourceExhausted  it was too slow (kDropReader)
//   kCancelled          RemoveReader()
struct RingEnd {
  uint64_t reader = 0;
  absl::Status status;
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
  // RingSizes::kMaxReaders, unanswered offers included, or at a limit of
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
  uint64_t put() const { return writer_.head(); }
  uint64_t acknowledged();

  // Drops readers that have died or left. One system call.
  absl::Status CheckReaders();
  // The readers dropped since the last call.
  std::vector<RingEnd> TakeEnded();
  size_t num_readers() const { return readers_.size(); }

  // Closes the ring. Waits until every living reader has acknowledged all
  // records, or until `deadline`: kDeadlineExceeded naming the slowest; may be
  // called again.
  absl::Status Close(Deadline deadline);

  // For event loops (doorbell.h): waits for room for one record.
  absl::StatusOr<int> PollFd() { return bell_->PollFd(); }
  absl::StatusOr<bool> Arm();
  void Disarm() { bell_->Disarm(); }

  DoorbellCounts counts() const { return bell_->counts(); }
  uint64_t rings() const;  // Wake-ups of readers, one system call each.

 private:
  struct Reader;
  struct ReaderSlot {
    uint64_t number = 0;  // 0: free.
    bool joined = false;
  };

  RingProducer(const RingOptions& options, ControlMemory memory);
  RingProducerWords& words() const;
  absl::Status CheckUsable() const;
  absl::StatusOr<uint64_t> Count(std::span<const std::byte> records) const;
  bool HasRoom(uint64_t count) const;
  bool Refresh();
  void RefreshAndDrop(uint64_t count);
  absl::Status NoReader(uint64_t count);
  void Drop(uint64_t number, absl::Status why);
  bool IsPlain(std::span<const std::byte> records) const;
  void PutNow(const std::byte* records, uint64_t count);
  void RingAll();
  void SetClosed();
  absl::StatusOr<bool> AwaitTails(uint64_t count, Deadline deadline);
  std::string DescribeSlowest() const;
  absl::Status CheckReply(const RingReplyMessage& message) const;
  void LetIn(std::unique_ptr<Reader> reader);
  void ChoosePublication();

  const RingOptions options_;
  const std::string what_;
  ControlMemory memory_;
  RandomId id_;
  RingWriter<> writer_;
  std::unique_ptr<Doorbell> bell_;
  std::vector<std::unique_ptr<Reader>> readers_;
  Publication publication_ = Publication::kSequential;
  std::vector<ReaderSlot> reader_slots_;
  std::vector<RingEnd> ended_;
  absl::Status last_end_;  // OK: there was no reader yet.
  uint64_t oldest_ = 0;    // The smallest tail at the last refresh.
  uint64_t next_number_ = 1;
  uint64_t old_rings_ = 0;  // Of dropped readers.
  bool closed_ = false;
  uint64_t fork_count_ = ForkCount();
};

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

  size_t record_bytes() const { return geometry_.record_bytes; }
  size_t capacity() const { return geometry_.capacity; }
  RingPolicy policy() const {
    return static_cast<RingPolicy>(geometry_.policy);
  }

  // Takes at least one record, at most as many as fit into `out`, and
  // acknowledges them; returns their number. Waits for the first until
  // `deadline`. Errors:
  //   kDeadlineExceeded  no record came; not sticky
  //   kDataLoss          records were lost, and how many: with kDropOldest they
  //                      were overwritten (not sticky: the next call returns
  //                      the oldest record left; lost() counts); this reader
  //                      was dropped; or the ring is poisoned
  //   kUnavailable       the producer has closed the ring or died, and all of
  //                      its records have been read
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
  uint64_t lost() const { return lost_; }

  // For event loops (doorbell.h): waits for a record, or for the end.
  absl::StatusOr<int> PollFd() { return bell_->PollFd(); }
  absl::StatusOr<bool> Arm();
  void Disarm() { bell_->Disarm(); }

  DoorbellCounts counts() const { return bell_->counts(); }
  uint64_t rings() const { return ringer_.rings(); }

 private:
  explicit RingReader(const RingOfferMessage& offer);
  absl::Status Map(const RingFds& fds);
  absl::Status MakeOwn(RingFds& fds);
  const RingProducerWords& producer() const;
  RingReaderWords& words() const;
  bool IsPlain(std::span<std::byte> out) const;
  bool HasJoined();
  bool WasDropped() const;
  bool HasReasonToWake();
  absl::Status Refresh();
  absl::Status Poison(absl::Status why);
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

#endif  // TENON_IPC_RING_RING_H_
