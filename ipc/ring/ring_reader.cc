// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/ring_reader.h"

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/ring/internal/ring_fds.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/internal/ring_protocol.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_report.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_identity.h"
#include "tenon/shm/process/process_info.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {
namespace {

using A = StdAtomics;

constexpr char kProducerMemory[] = "the memory of a ring";
constexpr uint64_t kProducer = 0;  // Its id among the participants of a wait.

}  // namespace

struct RingReader::State {
  explicit State(const RingOfferMessage& offer)
      : geometry(offer.geometry),
        ring(offer.ring),
        index(offer.index),
        number(offer.number),
        what(absl::StrCat("ring ", offer.ring.ToString(), ", reader ",
                          offer.number)) {}

  absl::Status Map(const RingFds& fds);
  absl::Status MakeOwn(RingFds& fds);

  const RingProducerWords& producer() const {
    return *reinterpret_cast<const RingProducerWords*>(view.data());
  }
  RingReaderWords& words() const {
    return *reinterpret_cast<RingReaderWords*>(own->data());
  }
  RingPolicy policy() const { return static_cast<RingPolicy>(geometry.policy); }
  absl::Status CheckNotInherited() const {
    return CheckNotForked(fork_count, what);
  }

  bool IsPlain(std::span<std::byte> out) const;
  bool HasJoined();
  bool WasDropped() const;
  bool HasReasonToWake();
  absl::Status Refresh();
  absl::Status Poison(const absl::Status& why);
  absl::Status Dropped();
  absl::StatusOr<size_t> CheckOverrun(size_t copied);
  absl::StatusOr<bool> Await(Deadline deadline);

  const RingGeometry geometry;
  const RandomId ring;
  const uint64_t index;
  const uint64_t number;
  const std::string what;
  ControlView view;
  std::unique_ptr<ControlMemory> own;
  std::optional<PidFd> process;  // The producer.
  std::unique_ptr<Doorbell> bell;
  DoorbellRinger ringer;
  RingCursor<> cursor;
  Publication publication = Publication::kSequential;
  bool joined = false;
  uint64_t seen = 0;  // Records peeked at, from the tail on.
  uint64_t lost = 0;
  absl::Status end;  // Sticky.
  const uint64_t fork_count = ForkCount();
};

// ---- Attaching ----

absl::StatusOr<std::unique_ptr<RingReader>> RingReader::Attach(
    RingOffer&& offer) {
  // Offers that were not parsed by FromMessage() are validated here.
  TENON_RETURN_IF_ERROR(
      RingOfferMessage::FromBytes(offer.message.ToBytes()).status());
  auto state = std::make_unique<State>(offer.message);
  TENON_RETURN_IF_ERROR(state->Map(offer.fds));
  TENON_RETURN_IF_ERROR(state->MakeOwn(offer.fds));
  // Map() has checked that it is sealed memory, whose close() does not block.
  offer.fds = RingFds();
  TENON_CRASH_POINT("ring.attached");
  return absl::WrapUnique(new RingReader(std::move(state)));
}

RingReader::RingReader(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

absl::Status RingReader::State::Map(const RingFds& fds) {
  const ByteRange all = {0, RingBytes(geometry)};
  const int memory = fds.memory.get();
  TENON_ASSIGN_OR_RETURN(view,
                         ControlView::Adopt(memory, all, kProducerMemory));
  TENON_RETURN_IF_ERROR(ReserveControlMemory(memory, all, kProducerMemory));
  RingGeometry found;
  std::memcpy(static_cast<void*>(&found), view.data(), sizeof(found));
  TENON_RETURN_IF_ERROR(CheckRingGeometry(found));
  if (found == geometry) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kProducerMemory, " has another geometry than its offer"));
}

// Takes `fds` once nothing can fail any more for want of memory or descriptors.
absl::Status RingReader::State::MakeOwn(RingFds& fds) {
  const ByteRange all = {0, sizeof(RingReaderWords)};
  TENON_ASSIGN_OR_RETURN(auto memory,
                         ControlMemory::Create(all.size, "ring reader"));
  TENON_RETURN_IF_ERROR(memory.Reserve(all));
  own = std::make_unique<ControlMemory>(std::move(memory));
  words().magic = RingReaderWords::kMagic;
  words().version = RingVersion();
  // A producer that does not fence publishes by seq_cst stores, whatever its
  // readers do.
  const bool producer_fences = producer().fences == 1;
  TENON_ASSIGN_OR_RETURN(
      bell,
      Doorbell::Create(&words().sleeping, what,
                       producer_fences ? Doorbell::Barriers::kBySleeper
                                       : Doorbell::Barriers::kByPublisher));
  TENON_ASSIGN_OR_RETURN(process, PidFd::Adopt(std::move(fds.process)));
  TENON_ASSIGN_OR_RETURN(
      ringer, DoorbellRinger::Adopt(&producer().sleeping, std::move(fds.bell)));
  words().fences = bell->fences() ? 1 : 0;
  if (bell->fences() && producer_fences) {
    publication = Publication::kFenced;
  }
  TENON_RETURN_IF_ERROR(bell->AddParticipant(kProducer, process->fd()));
  cursor = RingCursor<>(&producer().head, &producer().reserved, &words().tail,
                        RingSlotsIn(view.data(), geometry), geometry.capacity);
  return absl::OkStatus();
}

RingReader::~RingReader() {
  if (state_->fork_count != ForkCount()) return;
  A::Store(state_->words().left, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("ring.left");
  state_->ringer.Ring();
}

absl::StatusOr<RingReply> RingReader::Reply() const {
  const State& ring = *state_;
  TENON_RETURN_IF_ERROR(ring.CheckNotInherited());
  RingReply reply;
  reply.message.ring = ring.ring;
  reply.message.index = ring.index;
  reply.message.number = ring.number;
  TENON_ASSIGN_OR_RETURN(reply.fds,
                         CopyRingFds(ring.own->fd(), ring.bell->bell_fd()));
  return reply;
}

size_t RingReader::record_bytes() const {
  return state_->geometry.record_bytes;
}
size_t RingReader::capacity() const { return state_->geometry.capacity; }
RingPolicy RingReader::policy() const { return state_->policy(); }
uint64_t RingReader::lost() const { return state_->lost; }

// ---- The producer's words ----

bool RingReader::State::HasJoined() {
  if (joined) [[likely]]
    return true;
  const RingProducerWords::Entry& entry = producer().readers[index];
  const uint64_t state = A::Load(entry.state, std::memory_order_seq_cst);
  if (state != (number << 2 | RingProducerWords::kReading)) return false;
  cursor.StartAt(A::Load(entry.start, std::memory_order_relaxed));
  joined = true;
  return true;
}

// Also if the slot is another reader's by now. Before this reader has joined,
// the slot may still have a former reader's state.
bool RingReader::State::WasDropped() const {
  const uint64_t state =
      A::Load(producer().readers[index].state, std::memory_order_seq_cst);
  return joined ? state != (number << 2 | RingProducerWords::kReading)
                : state >> 2 > number ||
                      state == (number << 2 | RingProducerWords::kDropped);
}

absl::Status RingReader::State::Poison(const absl::Status& why) {
  end = absl::Status(
      why.code(), absl::StrCat(what, ": ", absl::string_view(why.message())));
  return end;
}

absl::Status RingReader::State::Dropped() {
  const uint64_t head = A::Load(producer().head, std::memory_order_relaxed);
  // It may have been added and dropped before its first read.
  const RingProducerWords::Entry& entry = producer().readers[index];
  uint64_t unread = 0;
  if (joined) {
    unread = head - cursor.tail();
  } else if (A::Load(entry.state, std::memory_order_acquire) >> 2 == number) {
    unread = head - A::Load(entry.start, std::memory_order_relaxed);
  }
  return Poison(absl::DataLossError(
      absl::StrCat("the producer has dropped this reader, which has not read ",
                   unread, " records")));
}

// Whether a sleeping reader has a reason to wake: a record, the end, or an
// error.
bool RingReader::State::HasReasonToWake() {
  if (WasDropped()) return true;
  if (HasJoined()) {
    if (!cursor.Refresh(policy() == RingPolicy::kDropOldest)) return true;
    if (cursor.available() != 0) return true;
  }
  return A::Load(producer().closed, std::memory_order_seq_cst) != 0;
}

// Reads the head if no records are known. OK does not imply that there are any.
absl::Status RingReader::State::Refresh() {
  if (!HasJoined()) {
    if (WasDropped()) return Dropped();
  } else {
    // In this order: records put before the ring was closed are seen.
    const bool closed =
        A::Load(producer().closed, std::memory_order_seq_cst) != 0;
    const bool good = cursor.Refresh(policy() == RingPolicy::kDropOldest);
    if (WasDropped()) return Dropped();
    if (!good) {
      return Poison(
          absl::DataLossError("corrupt head: it moved back, or is farther "
                              "ahead than the capacity"));
    }
    if (cursor.available() != 0 || !closed) return absl::OkStatus();
  }
  if (A::Load(producer().closed, std::memory_order_seq_cst) == 0) {
    return absl::OkStatus();
  }
  return Poison(absl::OutOfRangeError(
      "closed by its producer, and all records were read"));
}

// The number of copied records, if they were not overwritten meanwhile.
absl::StatusOr<size_t> RingReader::State::CheckOverrun(size_t copied) {
  TENON_CRASH_POINT("ring.copied");
  if (WasDropped()) [[unlikely]]
    return Dropped();
  if (policy() == RingPolicy::kDropOldest) {
    const uint64_t overwritten = cursor.Lost();
    if (overwritten > RingCursor<>::kFar) {
      return Poison(
          absl::DataLossError("corrupt control words of the producer"));
    }
    if (overwritten != 0) {
      seen = 0;
      lost += overwritten;
      cursor.Advance(overwritten, publication);
      ringer.Ring();
      return absl::DataLossError(
          absl::StrCat(what, ": ", overwritten,
                       " records were overwritten before they were read"));
    }
  }
  seen = std::max<uint64_t>(seen, copied);
  return copied;
}

// ---- Reading ----

absl::StatusOr<size_t> RingReader::TryPeek(std::span<std::byte> out) {
  State& ring = *state_;
  TENON_RETURN_IF_ERROR(ring.CheckNotInherited());
  if (!ring.end.ok()) [[unlikely]]
    return ring.end;
  const size_t record_bytes = ring.geometry.record_bytes;
  if (out.size() < record_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Get(): a record of ", ring.what, " has ", SizeText(record_bytes),
        "; `out` has room for ", SizeText(out.size())));
  }
  if (ring.cursor.available() == 0) TENON_RETURN_IF_ERROR(ring.Refresh());
  if (ring.cursor.available() == 0) return 0;
  const size_t fit =
      out.size() < 2 * record_bytes ? 1 : out.size() / record_bytes;
  const size_t count = std::min<uint64_t>(ring.cursor.available(), fit);
  for (size_t i = 0; i < count; ++i) {
    ring.cursor.Copy(i, out.data() + i * record_bytes);
  }
  return ring.CheckOverrun(count);
}

absl::Status RingReader::Advance(uint64_t records) {
  State& ring = *state_;
  TENON_RETURN_IF_ERROR(ring.CheckNotInherited());
  if (records > ring.seen) {
    return absl::InvalidArgumentError(
        absl::StrCat("Advance(): ", records, " records exceed the ", ring.seen,
                     " that have been peeked at"));
  }
  ring.seen -= records;
  ring.cursor.Advance(records, ring.publication);
  TENON_CRASH_POINT("ring.acknowledged");
  ring.ringer.Ring();
  return absl::OkStatus();
}

// One known record in a ring that does not overwrite.
bool RingReader::State::IsPlain(std::span<std::byte> out) const {
  return out.size() == geometry.record_bytes && cursor.available() != 0 &&
         policy() != RingPolicy::kDropOldest && end.ok() &&
         fork_count == ForkCount();
}

absl::StatusOr<size_t> RingReader::TryGet(std::span<std::byte> out) {
  State& ring = *state_;
  if (ring.IsPlain(out)) {
    ring.cursor.Copy(0, out.data());
    TENON_CRASH_POINT("ring.copied");
    if (!ring.WasDropped()) [[likely]] {
      ring.seen -= std::min<uint64_t>(ring.seen, 1);
      ring.cursor.Advance(1, ring.publication);
      TENON_CRASH_POINT("ring.acknowledged");
      ring.ringer.Ring();
      return 1;
    }
  }
  TENON_ASSIGN_OR_RETURN(const size_t count, TryPeek(out));
  if (count != 0) TENON_RETURN_IF_ERROR(Advance(count));
  return count;
}

// Waits until the reader has a reason to check again. False at the deadline.
absl::StatusOr<bool> RingReader::State::Await(Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(
      const WaitOutcome outcome,
      bell->Wait([this] { return HasReasonToWake(); }, deadline));
  if (outcome.kind == WaitOutcome::kDied) {
    return Poison(absl::UnavailableError(
        "its producer has died, and all of its records were read"));
  }
  return outcome.kind == WaitOutcome::kReady;
}

absl::StatusOr<size_t> RingReader::Peek(std::span<std::byte> out,
                                        Deadline deadline) {
  State& ring = *state_;
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const size_t count, TryPeek(out));
    if (count != 0) return count;
    TENON_ASSIGN_OR_RETURN(const bool more, ring.Await(deadline));
    if (!more) {
      const PidFd& producer = *ring.process;
      const pid_t pid = PidOf(producer).value_or(0);
      return absl::DeadlineExceededError(absl::StrCat(
          "Get(): ", ring.what,
          ": no record before the deadline from its producer, pid ", pid, " '",
          NameOf(producer), "', ", StateOf(producer)));
    }
  }
}

absl::StatusOr<size_t> RingReader::Get(std::span<std::byte> out,
                                       Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(const size_t count, Peek(out, deadline));
  TENON_RETURN_IF_ERROR(Advance(count));
  return count;
}

// ---- Event loops ----

absl::StatusOr<int> RingReader::PollFd() { return state_->bell->PollFd(); }

absl::StatusOr<bool> RingReader::Arm() {
  State& ring = *state_;
  return ring.bell->Arm([&ring] { return ring.HasReasonToWake(); });
}

void RingReader::Disarm() { state_->bell->Disarm(); }

RingStats RingReader::stats() const {
  const DoorbellCounts counts = state_->bell->counts();
  return {.spins_won = counts.spins_won,
          .sleeps = counts.sleeps,
          .wakes = state_->ringer.rings()};
}

}  // namespace tenon
