// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/internal/ring_reader_core.h"

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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

absl::StatusOr<std::unique_ptr<RingReaderCore>> RingReaderCore::Attach(
    RingOffer&& offer) {
  // Offers that were not parsed by FromMessage() are validated here.
  TENON_RETURN_IF_ERROR(
      RingOfferMessage::FromBytes(offer.message.ToBytes()).status());
  auto reader = absl::WrapUnique(new RingReaderCore(offer.message));
  TENON_RETURN_IF_ERROR(reader->Map(offer.fds));
  TENON_RETURN_IF_ERROR(reader->MakeOwn(offer.fds));
  // Map() has checked that it is sealed memory, whose close() does not block.
  offer.fds = RingFds();
  TENON_CRASH_POINT("ring.attached");
  return reader;
}

RingReaderCore::RingReaderCore(const RingOfferMessage& offer)
    : geometry_(offer.geometry),
      ring_(offer.ring),
      index_(offer.index),
      number_(offer.number),
      what_(absl::StrCat("ring ", offer.ring.ToString(), ", reader ",
                         offer.number)) {}

absl::Status RingReaderCore::Map(const RingFds& fds) {
  const ByteRange all = {
      0,
      kRingSlotsOffset +
          RingSizes{geometry_.record_bytes, geometry_.capacity}.slots_bytes()};
  const int memory = fds.memory.get();
  TENON_ASSIGN_OR_RETURN(view_,
                         ControlView::Adopt(memory, all, kProducerMemory));
  TENON_RETURN_IF_ERROR(ReserveControlMemory(memory, all, kProducerMemory));
  RingGeometry found;
  std::memcpy(static_cast<void*>(&found), view_.data(), sizeof(found));
  TENON_RETURN_IF_ERROR(CheckRingGeometry(found));
  if (found == geometry_) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(kProducerMemory, " has another geometry than its offer"));
}

// Takes `fds` once nothing can fail any more for want of memory or descriptors.
absl::Status RingReaderCore::MakeOwn(RingFds& fds) {
  const ByteRange all = {0, sizeof(RingReaderWords)};
  TENON_ASSIGN_OR_RETURN(auto own,
                         ControlMemory::Create(all.size, "ring reader"));
  TENON_RETURN_IF_ERROR(own.Reserve(all));
  own_ = std::make_unique<ControlMemory>(std::move(own));
  words().magic = RingReaderWords::kMagic;
  words().version = kRingVersion;
  TENON_ASSIGN_OR_RETURN(auto bell, Doorbell::Create(&words().sleeping, what_));
  TENON_ASSIGN_OR_RETURN(process_, PidFd::Adopt(std::move(fds.process)));
  // In this order: a reader with a bell has a ringer, too.
  TENON_ASSIGN_OR_RETURN(ringer_, DoorbellRinger::Adopt(&producer().sleeping,
                                                        std::move(fds.bell)));
  bell_ = std::move(bell);
  words().fences = bell_->fences() ? 1 : 0;
  if (bell_->fences() && producer().fences == 1) {
    publication_ = Publication::kFenced;
  }
  TENON_RETURN_IF_ERROR(bell_->AddParticipant(kProducer, process_->fd()));
  auto* slots = reinterpret_cast<const SharedWord<uint64_t>*>(view_.data() +
                                                              kRingSlotsOffset);
  // The slots are only read.
  cursor_ = RingCursor<>(
      &producer().head, &producer().reserved, &words().tail,
      RingSlots<>(const_cast<SharedWord<uint64_t>*>(slots), geometry_.capacity,
                  geometry_.record_bytes / sizeof(uint64_t)),
      geometry_.capacity);
  return absl::OkStatus();
}

RingReaderCore::~RingReaderCore() {
  // Without a bell it has never replied, so the producer does not know it.
  if (bell_ == nullptr || fork_count_ != ForkCount()) return;
  A::Store(words().left, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("ring.left");
  ringer_.Ring();
}

absl::StatusOr<RingReply> RingReaderCore::Reply() const {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  RingReply reply;
  reply.message.ring = ring_;
  reply.message.index = index_;
  reply.message.number = number_;
  TENON_ASSIGN_OR_RETURN(reply.fds, CopyRingFds(own_->fd(), bell_->bell_fd()));
  return reply;
}

const RingProducerWords& RingReaderCore::producer() const {
  return *reinterpret_cast<const RingProducerWords*>(view_.data());
}

RingReaderWords& RingReaderCore::words() const {
  return *reinterpret_cast<RingReaderWords*>(own_->data());
}

bool RingReaderCore::HasJoined() {
  if (joined_) [[likely]]
    return true;
  const RingProducerWords::Entry& entry = producer().readers[index_];
  const uint64_t state = A::Load(entry.state, std::memory_order_seq_cst);
  if (state != (number_ << 2 | RingProducerWords::kReading)) return false;
  cursor_.StartAt(A::Load(entry.start, std::memory_order_relaxed));
  joined_ = true;
  return true;
}

// Also if the slot is another reader's by now. Before this reader has joined,
// the slot may still have a former reader's state.
bool RingReaderCore::WasDropped() const {
  const uint64_t state =
      A::Load(producer().readers[index_].state, std::memory_order_seq_cst);
  return joined_ ? state != (number_ << 2 | RingProducerWords::kReading)
                 : state >> 2 > number_ ||
                       state == (number_ << 2 | RingProducerWords::kDropped);
}

absl::Status RingReaderCore::Poison(const absl::Status& why) {
  end_ = absl::Status(
      why.code(), absl::StrCat(what_, ": ", absl::string_view(why.message())));
  return end_;
}

absl::Status RingReaderCore::Dropped() {
  const uint64_t head = A::Load(producer().head, std::memory_order_relaxed);
  // It may have been added and dropped before its first read.
  const RingProducerWords::Entry& entry = producer().readers[index_];
  uint64_t unread = 0;
  if (joined_) {
    unread = head - cursor_.tail();
  } else if (A::Load(entry.state, std::memory_order_acquire) >> 2 == number_) {
    unread = head - A::Load(entry.start, std::memory_order_relaxed);
  }
  return Poison(absl::DataLossError(
      absl::StrCat("the producer has dropped this reader, which has not read ",
                   unread, " records")));
}

// Whether a sleeping reader has a reason to wake: a record, the end, or an
// error.
bool RingReaderCore::HasReasonToWake() {
  if (WasDropped()) return true;
  if (HasJoined()) {
    if (!cursor_.Refresh(policy() == RingPolicy::kDropOldest)) return true;
    if (cursor_.available() != 0) return true;
  }
  return A::Load(producer().closed, std::memory_order_seq_cst) != 0;
}

// Reads the head if no records are known. OK does not imply that there are any.
absl::Status RingReaderCore::Refresh() {
  if (!HasJoined()) {
    if (WasDropped()) return Dropped();
  } else {
    // In this order: records put before the ring was closed are seen.
    const bool closed =
        A::Load(producer().closed, std::memory_order_seq_cst) != 0;
    const bool good = cursor_.Refresh(policy() == RingPolicy::kDropOldest);
    if (WasDropped()) return Dropped();
    if (!good) {
      return Poison(
          absl::DataLossError("corrupt head: it moved back, or is farther "
                              "ahead than the capacity"));
    }
    if (cursor_.available() != 0 || !closed) return absl::OkStatus();
  }
  if (A::Load(producer().closed, std::memory_order_seq_cst) == 0) {
    return absl::OkStatus();
  }
  return Poison(absl::UnavailableError(
      "closed by its producer, and all records were read"));
}

absl::StatusOr<size_t> RingReaderCore::TryPeek(std::span<std::byte> out) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  if (!end_.ok()) [[unlikely]]
    return end_;
  const size_t record_bytes = geometry_.record_bytes;
  if (out.size() < record_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("Get(): a record of ", what_, " has ", record_bytes,
                     " bytes; `out` has room for ", out.size()));
  }
  if (cursor_.available() == 0) TENON_RETURN_IF_ERROR(Refresh());
  if (cursor_.available() == 0) return 0;
  const size_t fit =
      out.size() < 2 * record_bytes ? 1 : out.size() / record_bytes;
  const size_t count = std::min<uint64_t>(cursor_.available(), fit);
  for (size_t i = 0; i < count; ++i) {
    cursor_.Copy(i, out.data() + i * record_bytes);
  }
  return CheckOverrun(count);
}

// The number of copied records, if they were not overwritten meanwhile.
absl::StatusOr<size_t> RingReaderCore::CheckOverrun(size_t copied) {
  TENON_CRASH_POINT("ring.copied");
  if (WasDropped()) [[unlikely]]
    return Dropped();
  if (policy() == RingPolicy::kDropOldest) {
    const uint64_t lost = cursor_.Lost();
    if (lost > RingCursor<>::kFar) {
      return Poison(
          absl::DataLossError("corrupt control words of the producer"));
    }
    if (lost != 0) {
      seen_ = 0;
      lost_ += lost;
      cursor_.Advance(lost, publication_);
      ringer_.Ring();
      return absl::DataLossError(
          absl::StrCat(what_, ": ", lost,
                       " records were overwritten before they were read"));
    }
  }
  seen_ = std::max<uint64_t>(seen_, copied);
  return copied;
}

absl::Status RingReaderCore::Advance(uint64_t records) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  if (records > seen_) {
    return absl::InvalidArgumentError(
        absl::StrCat("Advance(): ", records, " records exceed the ", seen_,
                     " that have been peeked at"));
  }
  seen_ -= records;
  cursor_.Advance(records, publication_);
  TENON_CRASH_POINT("ring.acknowledged");
  ringer_.Ring();
  return absl::OkStatus();
}

// One known record in a ring that does not overwrite.
bool RingReaderCore::IsPlain(std::span<std::byte> out) const {
  return out.size() == geometry_.record_bytes && cursor_.available() != 0 &&
         policy() != RingPolicy::kDropOldest && end_.ok() &&
         fork_count_ == ForkCount();
}

absl::StatusOr<size_t> RingReaderCore::TryGet(std::span<std::byte> out) {
  if (IsPlain(out)) {
    cursor_.Copy(0, out.data());
    TENON_CRASH_POINT("ring.copied");
    if (!WasDropped()) [[likely]] {
      seen_ -= std::min<uint64_t>(seen_, 1);
      cursor_.Advance(1, publication_);
      TENON_CRASH_POINT("ring.acknowledged");
      ringer_.Ring();
      return 1;
    }
  }
  TENON_ASSIGN_OR_RETURN(const size_t count, TryPeek(out));
  if (count != 0) TENON_RETURN_IF_ERROR(Advance(count));
  return count;
}

// Waits until the reader has a reason to check again. False at the deadline.
absl::StatusOr<bool> RingReaderCore::Await(Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(
      const WaitOutcome outcome,
      bell_->Wait([this] { return HasReasonToWake(); }, deadline));
  if (outcome.kind == WaitOutcome::kDied) {
    return Poison(absl::UnavailableError(
        "its producer has died, and all of its records were read"));
  }
  return outcome.kind == WaitOutcome::kReady;
}

absl::StatusOr<size_t> RingReaderCore::Peek(std::span<std::byte> out,
                                            Deadline deadline) {
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const size_t count, TryPeek(out));
    if (count != 0) return count;
    TENON_ASSIGN_OR_RETURN(const bool more, Await(deadline));
    if (!more) {
      const pid_t pid = PidOf(*process_).value_or(0);
      return absl::DeadlineExceededError(absl::StrCat(
          "Get(): ", what_,
          ": no record before the deadline from its producer, pid ", pid, " '",
          NameOf(*process_), "', ", StateOf(*process_)));
    }
  }
}

absl::StatusOr<size_t> RingReaderCore::Get(std::span<std::byte> out,
                                           Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(const size_t count, Peek(out, deadline));
  TENON_RETURN_IF_ERROR(Advance(count));
  return count;
}

absl::StatusOr<bool> RingReaderCore::Arm() {
  return bell_->Arm([this] { return HasReasonToWake(); });
}

RingStats RingReaderCore::stats() const {
  const DoorbellCounts counts = bell_->counts();
  return {.spins_won = counts.spins_won,
          .sleeps = counts.sleeps,
          .wakes = ringer_.rings()};
}

}  // namespace tenon
