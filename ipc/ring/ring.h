// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingProducer and RingReader: records of a fixed size from one process to one
// or many others, through memory, without system calls while both keep up.
//
//   TENON_ASSIGN_OR_RETURN(auto ring, RingProducer::Create({.name = "frames"}));
//   TENON_ASSIGN_OR_RETURN(RingOffer offer, ring->Offer());  // To the reader.
//   TENON_RETURN_IF_ERROR(ring->AddReader(std::move(reply)).status());
//   TENON_RETURN_IF_ERROR(ring->Put(record, deadline));
//
//   // The reader:
//   TENON_ASSIGN_OR_RETURN(auto reader, RingReader::Attach(std::move(offer)));
//   TENON_ASSIGN_OR_RETURN(RingReply reply, reader->Reply());
//   TENON_ASSIGN_OR_RETURN(size_t records, reader->Get(buffer, deadline));
//
// Every record goes to every reader, which each have a tail of their own. The
// tail is the acknowledgement: who has to do something before the sender may
// let go, such as claiming a block, does it between Peek() and Advance().
//
// What each process writes lies in memory that only it can write and all others
// map read-only. So one that dies at any instruction leaves nothing wrong, and
// one that is hostile can spoil only its own part: see Trust.

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

// A reader that the producer waits for no more, and why:
//   kUnavailable        it has died or left
//   kDataLoss           its tail said what cannot be
//   kResourceExhausted  it was too slow (kDropReader)
//   kCancelled          RemoveReader()
struct RingEnd {
  uint64_t reader = 0;
  absl::Status status;
};

// Ownership: owns its memory and descriptors (close-on-exec), and the readers'
//   that it was given. Destruction closes the ring without waiting.
// Threads: thread-compatible: one at a time.
// Processes: inert in a forked child: calls fail with kFailedPrecondition.
// Trust: a reader's tail is looked at, and believed only if it moves forward
//   and not beyond the head; else that reader is dropped. For its bell, see
//   doorbell.h. A reader that stands still holds up a kWait ring until the
//   deadline; that it is stopped is not taken for death.
// Failure: what fails puts nothing.
class RingProducer {
 public:
  // Errors: kInvalidArgument for sizes that cannot be; kResourceExhausted
  // naming the limit (descriptors, memory).
  static absl::StatusOr<std::unique_ptr<RingProducer>> Create(
      const RingOptions& options);
  ~RingProducer();
  RingProducer(const RingProducer&) = delete;
  RingProducer& operator=(const RingProducer&) = delete;

  // For one reader. Errors: kResourceExhausted if there are
  // RingSizes::kMaxReaders with those that were offered and have not replied,
  // or at a limit of descriptors.
  absl::StatusOr<RingOffer> Offer();

  // Lets in the reader of that reply, which gets what is put from now on;
  // returns its number. Errors, after which another reply may be good:
  // kInvalidArgument if it is none to an offer of this ring, or its descriptors
  // are not what they should be; kFailedPrecondition if seals are missing or it
  // has another version; kResourceExhausted.
  absl::StatusOr<uint64_t> AddReader(RingReply reply);

  // Forgets a reader, or the offer of that number: waits for it no more, and it
  // finds itself dropped. Errors: kNotFound.
  absl::Status RemoveReader(uint64_t number);

  // Puts all of `records`, one or more, at most a ringful; all can be seen at
  // once. Waits for room until `deadline`, with kWait; with the other policies
  // there always is. Errors:
  //   kDeadlineExceeded    naming the slowest reader, and if it is stopped
  //   kFailedPrecondition  no reader was added yet (but with kDropOldest, which
  //                        can do without), or it is closed
  //   kInvalidArgument     not a whole number of records, or too many
  //   that of a RingEnd    of the last reader, if there are none any more
  absl::Status Put(std::span<const std::byte> records, Deadline deadline);

  // The same without waiting: false if there is no room. No system call, but
  // for waking readers that sleep, each once for each of its sleeps.
  absl::StatusOr<bool> TryPut(std::span<const std::byte> records);

  // How many records have been put, and how many of these every reader that is
  // still there has acknowledged: those may be let go. Dead readers count until
  // they are noticed, by Put() when it waits, or by CheckReaders().
  uint64_t put() const { return writer_.head(); }
  uint64_t acknowledged();

  // Looks who has died or left. One system call.
  absl::Status CheckReaders();
  // The readers that are not there any more, since the last call.
  std::vector<RingEnd> TakeEnded();
  size_t num_readers() const { return readers_.size(); }

  // No more records. Waits until every reader that lives has acknowledged all,
  // or `deadline`: kDeadlineExceeded naming the slowest; may be called again.
  absl::Status Close(Deadline deadline);

  // For event loops, see doorbell.h: waits for room for one record.
  absl::StatusOr<int> PollFd() { return bell_->PollFd(); }
  absl::StatusOr<bool> Arm();
  void Disarm() { bell_->Disarm(); }

  DoorbellCounts counts() const { return bell_->counts(); }
  uint64_t rings() const;  // Wake-ups of readers, one system call each.

 private:
  struct Reader;
  struct Place {
    uint64_t number = 0;  // 0: free.
    bool joined = false;
  };

  RingProducer(const RingOptions& options, ControlMemory memory);
  RingProducerWords& words() const;
  absl::Status CheckUsable() const;
  absl::StatusOr<uint64_t> Count(std::span<const std::byte> records) const;
  bool HasRoom(uint64_t count) const;
  bool Look();
  void LookAndDrop(uint64_t count);
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
  std::vector<Place> places_;
  std::vector<RingEnd> ended_;
  absl::Status last_end_;  // OK: there was no reader yet.
  uint64_t oldest_ = 0;    // The least of the tails when last looked at.
  uint64_t next_number_ = 1;
  uint64_t old_rings_ = 0;  // Of readers that are gone.
  bool closed_ = false;
  uint64_t fork_count_ = ForkCount();
};

// Ownership: owns its memory, its mapping of the producer's, and descriptors
//   (close-on-exec). Destruction tells the producer that it has left.
// Threads: thread-compatible: one at a time.
// Processes: inert in a forked child.
// Trust: records are copied out before anything else, and are the producer's
//   word. A head that went back, or is farther away than the ring is long,
//   poisons the ring: kDataLoss from then on.
// Failure: errors below are sticky unless it says otherwise.
class RingReader {
 public:
  // Checks what was offered, and maps it. Errors: kInvalidArgument if it is not
  // what it should be; kFailedPrecondition naming both versions, or the seals
  // that are missing; kResourceExhausted naming the limit.
  static absl::StatusOr<std::unique_ptr<RingReader>> Attach(RingOffer offer);
  ~RingReader();
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;

  // What the producer needs. Errors: kResourceExhausted.
  absl::StatusOr<RingReply> Reply() const;

  size_t record_bytes() const { return kind_.record_bytes; }
  size_t capacity() const { return kind_.capacity; }
  RingPolicy policy() const { return static_cast<RingPolicy>(kind_.policy); }

  // Takes as many records as there are and fit into `out`, at least one, and
  // acknowledges them; returns how many. Waits for the first until `deadline`.
  // Errors:
  //   kDeadlineExceeded  nothing came; not sticky
  //   kDataLoss          records were lost, and how many: with kDropOldest they
  //                      were written over (not sticky: the next call goes on
  //                      with what is there; lost() counts); this reader was
  //                      dropped; or the ring is poisoned
  //   kUnavailable       the producer has closed the ring or died, and all that
  //                      it put has been read
  //   kInvalidArgument   there is no room for one record; not sticky
  absl::StatusOr<size_t> Get(std::span<std::byte> out, Deadline deadline);
  // The same without waiting or any system call, but for waking the producer if
  // it waits for room: 0 if nothing is there. Does not notice a death.
  absl::StatusOr<size_t> TryGet(std::span<std::byte> out);

  // As Get() and TryGet(), without acknowledging: the same records come again,
  // until Advance() acknowledges as many as have been peeked at.
  absl::StatusOr<size_t> Peek(std::span<std::byte> out, Deadline deadline);
  absl::StatusOr<size_t> TryPeek(std::span<std::byte> out);
  // Errors: kInvalidArgument if so many have not been seen; not sticky.
  absl::Status Advance(uint64_t records);

  // Records that were lost to kDropOldest.
  uint64_t lost() const { return lost_; }

  // For event loops, see doorbell.h: waits for a record, or for the end.
  absl::StatusOr<int> PollFd() { return bell_->PollFd(); }
  absl::StatusOr<bool> Arm();
  void Disarm() { bell_->Disarm(); }

  DoorbellCounts counts() const { return bell_->counts(); }
  uint64_t rings() const { return ringer_.rings(); }

 private:
  explicit RingReader(const RingOfferMessage& offer);
  absl::Status Map(const RingFds& fds);
  absl::Status MakeOwn(RingFds fds);
  const RingProducerWords& producer() const;
  RingReaderWords& words() const;
  bool IsPlain(std::span<std::byte> out) const;
  bool HasJoined();
  bool WasDropped() const;
  bool SomethingIsThere();
  absl::Status Look();
  absl::Status Poison(absl::Status why);
  absl::Status Dropped();
  absl::StatusOr<size_t> Judge(size_t copied);
  absl::StatusOr<bool> Await(Deadline deadline);

  const RingKind kind_;
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
  uint64_t seen_ = 0;  // Records from the tail on that were peeked at.
  uint64_t lost_ = 0;
  absl::Status end_;  // Sticky.
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_H_
