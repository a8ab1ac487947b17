// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_producer_reader.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {
namespace {

using A = StdAtomics;

// The number of slots ahead for which a cache line is prefetched: that many
// puts take as long as the line takes from core to core.
constexpr uint64_t kExpectAhead = 8;

}  // namespace

absl::StatusOr<std::unique_ptr<RingProducer>> RingProducer::Create(
    const RingOptions& options) {
  RingGeometry geometry;
  geometry.policy = static_cast<uint32_t>(options.policy);
  geometry.record_bytes = options.record_bytes;
  geometry.capacity = options.capacity;
  TENON_RETURN_IF_ERROR(CheckRingGeometry(geometry));
  const size_t bytes =
      kRingSlotsOffset +
      RingSizes{geometry.record_bytes, geometry.capacity}.slots_bytes();
  TENON_ASSIGN_OR_RETURN(auto memory,
                         ControlMemory::Create(bytes, options.name));
  TENON_RETURN_IF_ERROR(memory.Reserve({0, bytes}));
  auto producer =
      absl::WrapUnique(new RingProducer(options, std::move(memory)));
  RingProducerWords& words = producer->words();
  words.geometry = geometry;
  TENON_ASSIGN_OR_RETURN(producer->id_, RandomId::New());
  TENON_ASSIGN_OR_RETURN(producer->bell_,
                         Doorbell::Create(&words.sleeping, producer->what_));
  words.fences = producer->bell_->fences() ? 1 : 0;
  TENON_CRASH_POINT("ring.created");
  return producer;
}

RingProducer::RingProducer(const RingOptions& options, ControlMemory memory)
    : options_(options),
      what_(absl::StrCat("ring '", options.name, "'")),
      memory_(std::move(memory)),
      writer_(&words().head,
              options.policy == RingPolicy::kDropOldest ? &words().reserved
                                                        : nullptr,
              RingSlots<>(reinterpret_cast<SharedWord<uint64_t>*>(
                              memory_.data() + kRingSlotsOffset),
                          options.capacity,
                          options.record_bytes / sizeof(uint64_t))),
      reader_slots_(RingSizes::kMaxReaders) {}

RingProducer::~RingProducer() {
  if (fork_count_ == ForkCount()) SetClosed();
}

RingProducerWords& RingProducer::words() const {
  return *reinterpret_cast<RingProducerWords*>(memory_.data());
}

absl::Status RingProducer::CheckUsable() const {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  if (!closed_) [[likely]]
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(what_, " is closed"));
}

absl::StatusOr<uint64_t> RingProducer::Count(
    std::span<const std::byte> records) const {
  if (records.size() == options_.record_bytes) [[likely]]
    return 1;
  const uint64_t count = records.size() / options_.record_bytes;
  if (count != 0 && count <= options_.capacity &&
      records.size() % options_.record_bytes == 0) {
    return count;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Put(): ", records.size(), " bytes for ", what_, "; want 1 to ",
      options_.capacity, " records of ", options_.record_bytes, " bytes"));
}

bool RingProducer::HasRoom(uint64_t count) const {
  return writer_.head() - oldest_ + count <= options_.capacity;
}

// Reads all tails. False if a reader has left or its tail is corrupt.
bool RingProducer::Refresh() {
  const uint64_t head = writer_.head();
  uint64_t longest = 0;
  bool good = true;
  for (const auto& reader : readers_) {
    good &= !reader->has_left();
    good &= reader->tail.Refresh(head);
    longest = std::max(longest, head - reader->tail.tail());
  }
  oldest_ = head - longest;
  return good;
}

// The same; drops readers that have left or whose tail is corrupt, and with
// kDropReader those that leave no room for `count`.
void RingProducer::RefreshAndDrop(uint64_t count) {
  if (!Refresh()) {
    std::vector<RingEnd> bad;
    for (const auto& reader : readers_) {
      if (!reader->tail.Refresh(writer_.head())) {
        bad.push_back(
            {reader->number,
             absl::DataLossError(
                 "its tail is corrupt: it moved back, or beyond the head")});
      } else if (reader->has_left()) {
        bad.push_back({reader->number, absl::UnavailableError("it has left")});
      }
    }
    for (RingEnd& end : bad) Drop(end.reader, std::move(end.status));
    Refresh();
  }
  if (options_.policy != RingPolicy::kDropReader || HasRoom(count)) return;
  std::vector<uint64_t> slow;
  for (const auto& reader : readers_) {
    if (writer_.head() - reader->tail.tail() + count > options_.capacity) {
      slow.push_back(reader->number);
    }
  }
  for (const uint64_t number : slow) {
    Drop(number, absl::ResourceExhaustedError("it was too slow"));
  }
  Refresh();
}

absl::Status RingProducer::NoReader(uint64_t count) {
  if (!HasRoom(count)) RefreshAndDrop(count);
  if (!readers_.empty() || options_.policy == RingPolicy::kDropOldest) {
    return absl::OkStatus();
  }
  if (!last_end_.ok()) return last_end_;
  return absl::FailedPreconditionError(
      absl::StrCat(what_, " has no reader yet"));
}

// One record, with room for it and at least one reader. A single put costs as
// much as its stores: a store that waits for its line delays all later ones,
// those to the stack too, in the store buffer, which is short.
bool RingProducer::IsPlain(std::span<const std::byte> records) const {
  return records.size() == options_.record_bytes && HasRoom(1) &&
         !readers_.empty() && !closed_ && fork_count_ == ForkCount();
}

[[gnu::always_inline]] inline void RingProducer::RingAll() {
  for (const auto& reader : readers_) reader->ringer.Ring();
}

[[gnu::always_inline]] inline void RingProducer::PutNow(const std::byte* record,
                                                        uint64_t count) {
  writer_.Reserve(count);
  TENON_CRASH_POINT("ring.reserved");
  for (uint64_t i = 0; i < count; ++i) {
    writer_.Write(i, record);
    record += options_.record_bytes;
  }
  TENON_CRASH_POINT("ring.written");
  writer_.Publish(count, publication_);
  TENON_CRASH_POINT("ring.published");
  // The readers have its cache line: prefetched now, it arrives in time.
  writer_.slots().ExpectWrite(writer_.head() + kExpectAhead);
  RingAll();
}

absl::StatusOr<bool> RingProducer::TryPut(std::span<const std::byte> records) {
  if (IsPlain(records)) [[likely]] {
    PutNow(records.data(), 1);
    return true;
  }
  TENON_RETURN_IF_ERROR(CheckUsable());
  TENON_ASSIGN_OR_RETURN(const uint64_t count, Count(records));
  if (readers_.empty() || !HasRoom(count)) {
    if (options_.policy != RingPolicy::kDropOldest) {
      TENON_RETURN_IF_ERROR(NoReader(count));
      if (!HasRoom(count)) return false;
    }
  }
  PutNow(records.data(), count);
  return true;
}

absl::Status RingProducer::Put(std::span<const std::byte> records,
                               Deadline deadline) {
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const bool put, TryPut(records));
    if (put) return absl::OkStatus();
    TENON_ASSIGN_OR_RETURN(const uint64_t count, Count(records));
    TENON_ASSIGN_OR_RETURN(const bool room, AwaitTails(count, deadline));
    if (!room) {
      return absl::DeadlineExceededError(
          absl::StrCat("Put(): ", what_, " is full: ", DescribeSlowest()));
    }
  }
}

// Waits until there is room for `count`, or a reader's state has changed. False
// at the deadline.
absl::StatusOr<bool> RingProducer::AwaitTails(uint64_t count,
                                              Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(
      const WaitOutcome outcome,
      bell_->Wait([&] { return !Refresh() || HasRoom(count); }, deadline));
  if (outcome.kind == WaitOutcome::kDied) {
    Drop(outcome.participant, absl::UnavailableError("it has died"));
  }
  return outcome.kind != WaitOutcome::kDeadline;
}

std::string RingProducer::DescribeSlowest() const {
  const Reader* slowest = nullptr;
  for (const auto& reader : readers_) {
    if (slowest == nullptr || writer_.head() - reader->tail.tail() >
                                  writer_.head() - slowest->tail.tail()) {
      slowest = reader.get();
    }
  }
  if (slowest == nullptr) return "there is no reader";
  return absl::StrCat(slowest->Describe(), " has not read the last ",
                      writer_.head() - slowest->tail.tail(), " records");
}

uint64_t RingProducer::acknowledged() {
  if (fork_count_ == ForkCount()) RefreshAndDrop(0);
  return oldest_;
}

absl::Status RingProducer::CheckReaders() {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const uint64_t* dead, bell_->FindDead());
    if (dead == nullptr) break;
    Drop(*dead, absl::UnavailableError("it has died"));
  }
  RefreshAndDrop(0);
  return absl::OkStatus();
}

std::vector<RingEnd> RingProducer::TakeEnded() {
  return std::exchange(ended_, {});
}

void RingProducer::SetClosed() {
  closed_ = true;
  A::Store(words().closed, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("ring.closed");
  RingAll();
}

absl::Status RingProducer::Close(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  if (!closed_) SetClosed();
  for (;;) {
    RefreshAndDrop(0);
    if (oldest_ == writer_.head()) return absl::OkStatus();
    // Room for a full ring means that all has been read.
    TENON_ASSIGN_OR_RETURN(const bool room,
                           AwaitTails(options_.capacity, deadline));
    if (!room) {
      return absl::DeadlineExceededError(
          absl::StrCat("Close(): ", what_, ": ", DescribeSlowest()));
    }
  }
}

absl::StatusOr<bool> RingProducer::Arm() {
  return bell_->Arm([this] { return !Refresh() || HasRoom(1); });
}

uint64_t RingProducer::rings() const {
  uint64_t rings = old_rings_;
  for (const auto& reader : readers_) rings += reader->ringer.rings();
  return rings;
}

}  // namespace tenon
